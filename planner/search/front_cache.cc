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

const StageFront& FrontCache::Find(int stage, int first_layer, int end_layer,
                                   const StageLimits& limits, SearchMeter& meter) {
  const PipelineSetting::Stage& facts = setting_.stage(stage);
  StageQuestion question = {.runs = setting_.RunsOf(first_layer, end_layer),
                            .in_flight_micro_batch_count = facts.in_flight,
                            .keeps_outputs = facts.keeps_outputs,
                            .extra_communicator_count = facts.extra_communicator_count,
                            .gradient_bucket = setting_.costs().runtime().gradient_bucket};
  std::vector<Entry>& entries =
      entries_[Key(question.runs, question.keeps_outputs, question.extra_communicator_count)];
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
  add(1.0, 1.0, entry.limits.way_and_sync);
  add(count, 1.0, entry.limits.work);
  entry.front = std::make_unique<const StageFront>(
      SolveStage(setting_.table(), question, setting_.budget(), cuts, allowed_, meter));
  entry.least_in_flight = facts.in_flight;
  entry.most_in_flight =
      entry.front->is_complete ? MostInFlight(question, *entry.front) : facts.in_flight;
  ++solved_count_;
  entries.push_back(std::move(entry));
  return *entries.back().front;
}

}  // namespace parplan
