#include "planner/search/front_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace parplan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Fronts are solved for a little more than is asked, so that they serve the next stages.
constexpr double kAhead = 1.001;
// A front for much more than is asked has choices nobody wants.
constexpr double kFarAhead = 1.02;

bool Covers(const StageLimits& known, const StageLimits& wanted) {
  const auto covers = [](double limit, double asked) {
    return limit >= asked && (limit <= asked * kFarAhead || asked <= 0.0);
  };
  return covers(known.way, wanted.way) && known.way_and_sync >= wanted.way_and_sync &&
         known.work >= wanted.work;
}

}  // namespace

int64_t FrontCache::MostInFlight(const StageQuestion& question, const StageFront& front) const {
  int64_t most = std::numeric_limits<int64_t>::max();
  for (const StageChoice& choice : front.choices) {
    Bytes states;
    Bytes kept;
    Bytes transient;
    int communicators = 0;
    size_t layer = 0;
    for (const DefinitionRun& run : question.runs) {
      const std::vector<StageOption>& options = setting_.table().options(run.definition_index);
      for (int k = 0; k < run.layer_count; ++k, ++layer) {
        const StageOption& option = options[choice.options[layer]];
        states += option.states;
        kept += option.kept;
        transient = std::max(transient, option.transient);
        communicators = std::max(communicators, option.communicator_count);
      }
    }
    if (question.keeps_outputs) {
      kept += setting_.table().Message(question.runs.back().definition_index, choice.last_layout);
    }
    const Bytes room =
        setting_.budget()[communicators + question.extra_communicator_count] - states - transient;
    if (kept > Bytes()) most = std::min(most, room.count() / kept.count());
  }
  return std::max(most, question.in_flight_micro_batch_count);
}

// As `PlanEvaluator` does: layers of one option together.
void FrontCache::SumTimes(const StageQuestion& question, StageFront& front) const {
  for (StageChoice& choice : front.choices) {
    choice.forward = choice.backward = choice.sync = Seconds();
    size_t layer = 0;
    int before = -1;
    for (const DefinitionRun& run : question.runs) {
      const std::vector<StageOption>& options = setting_.table().options(run.definition_index);
      for (int k = 0; k < run.layer_count;) {
        const int index = choice.options[layer];
        int count = 1;
        while (k + count < run.layer_count && choice.options[layer + count] == index) ++count;
        const StageOption& option = options[index];
        choice.forward += option.forward * count;
        choice.backward += option.backward * count;
        choice.sync += option.sync * count;
        if (before >= 0) {
          const Seconds move =
              setting_.table().Transition(run.definition_index, before, option.layout);
          choice.forward += move * 0.5;
          choice.backward += move * 0.5;
        }
        before = option.layout;
        layer += count;
        k += count;
      }
    }
  }
}

const StageFront& FrontCache::Find(int stage, int first_layer, int end_layer,
                                   const StageLimits& limits, SearchMeter& meter) {
  const PipelineSetting::Stage& facts = setting_.stage(stage);
  StageQuestion question = {.runs = setting_.RunsOf(first_layer, end_layer),
                            .in_flight_micro_batch_count = facts.in_flight,
                            .keeps_outputs = facts.keeps_outputs,
                            .extra_communicator_count = facts.extra_communicator_count,
                            .gradient_bucket = setting_.costs().runtime().gradient_bucket,
                            .joins_passes = keeps_ == FrontKeeps::kWays,
                            .ignores_sync = keeps_ == FrontKeeps::kWays && stage > 0};
  std::vector<Entry>& entries =
      entries_[Key(question.runs, question.keeps_outputs, question.extra_communicator_count,
                   question.ignores_sync)];
  for (const Entry& entry : entries) {
    if (facts.in_flight >= entry.least_in_flight && facts.in_flight <= entry.most_in_flight &&
        Covers(entry.limits, limits)) {
      return *entry.front;
    }
  }
  Entry entry;
  entry.limits = {limits.way * kAhead, limits.way_and_sync * kAhead, limits.work * kAhead};
  std::vector<LinearCut> cuts;
  const double count = setting_.recurrence().micro_batch_count();
  const auto add = [&cuts](double passes, double sync, double most) {
    if (most < kInfinite) cuts.push_back({passes, passes, sync, most});
  };
  add(1.0, 0.0, entry.limits.way);
  if (!question.ignores_sync) {
    add(1.0, 1.0, entry.limits.way_and_sync);
    add(count, 1.0, entry.limits.work);
  } else {
    entry.limits.way_and_sync = entry.limits.work = kInfinite;
  }
  StageFront front =
      SolveStage(setting_.table(), question, setting_.budget(), cuts, allowed_, meter);
  if (keeps_ == FrontKeeps::kWays) SumTimes(question, front);
  entry.front = std::make_unique<const StageFront>(std::move(front));
  entry.least_in_flight = facts.in_flight;
  entry.most_in_flight =
      entry.front->is_complete ? MostInFlight(question, *entry.front) : facts.in_flight;
  ++solved_count_;
  entries.push_back(std::move(entry));
  return *entries.back().front;
}

}  // namespace parplan
