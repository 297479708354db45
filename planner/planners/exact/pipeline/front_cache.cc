#include "planner/planners/exact/pipeline/front_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/planners/exact/pipeline/stage_mix.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/stage/front_stage.h"
#include "planner/search/stage/window_growth.h"

namespace parplan {
namespace {

// Fronts are solved for slightly larger cutoffs than asked, so that they serve the next stages.
constexpr double kAhead = 1.001;
// A front solved for a cutoff this much larger is not reused, because its many unneeded choices
// slow the joining of stages. Neither factor was measured.
constexpr double kFarAhead = 1.02;
// First window above the bound in which the shortest time is searched; the second constant adds a
// share of the grain, because rounded times may lie that far below. Chosen by hand: windows grow
// when nothing is found (window_growth.h).
constexpr double kFirstFrontExcess = 0.0005;
constexpr double kFirstGrain = 0.125;

// Merges choices into others. `better` is preferred where both have choices with the same first and
// last layout, as far as these matter.
void AddBetter(const StageQuestion& question, StageFront better, StageFront& front) {
  const auto ends = [&question](const StageChoice& choice) {
    return std::pair(question.first_layout_matters ? choice.first_layout : 0,
                     question.last_layout_matters ? choice.last_layout : 0);
  };
  std::erase_if(front.choices, [&](const StageChoice& choice) {
    return std::any_of(better.choices.begin(), better.choices.end(),
                       [&](const StageChoice& other) { return ends(other) == ends(choice); });
  });
  front.is_complete = front.is_complete && better.is_complete;
  for (StageChoice& choice : better.choices) front.choices.push_back(std::move(choice));
  std::stable_sort(
      front.choices.begin(), front.choices.end(), [](const StageChoice& a, const StageChoice& b) {
        return std::pair(a.first_layout, a.last_layout) < std::pair(b.first_layout, b.last_layout);
      });
}

bool Covers(const StageLimits& known, const StageLimits& wanted) {
  const auto covers = [](double limit, double asked) {
    return limit >= asked && (limit <= asked * kFarAhead || limit == kInfinity);
  };
  return covers(known.forward_backward, wanted.forward_backward) &&
         known.forward_backward_sync >= wanted.forward_backward_sync && known.work >= wanted.work;
}

}  // namespace

FrontCache::FrontCache(const PipelineSetting& setting, const OptionMask& allowed, FrontKeeps keeps,
                       double grain, std::vector<int> layout_classes, StageRule* rule)
    : setting_(setting),
      allowed_(allowed),
      keeps_(keeps),
      grain_(grain),
      rule_(rule),
      layout_classes_(std::move(layout_classes)) {
  members_.resize(layout_classes_.size());
  for (size_t layout = 0; layout < layout_classes_.size(); ++layout) {
    members_[layout_classes_[layout]].push_back(static_cast<int>(layout));
  }
}

Seconds FrontCache::Send(int definition, int from_layout, int to_layout, bool leaves_node) const {
  const OptionTable& table = setting_.table();
  if (members_.empty()) return table.Send(definition, from_layout, to_layout, leaves_node);
  Seconds least = Seconds::Infinite();
  for (const int from : members_[from_layout]) {
    for (const int to : members_[to_layout]) {
      least = std::min(least, table.Send(definition, from, to, leaves_node));
    }
  }
  return least;
}

int64_t FrontCache::MaxInFlight(const StageQuestion& question, const StageFront& front) const {
  int64_t largest = std::numeric_limits<int64_t>::max();
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
    if (kept.count() > 0) largest = std::min(largest, room.count() / kept.count());
  }
  return std::max(largest, question.in_flight_micro_batch_count);
}

const StageFront& FrontCache::Find(int stage, int first_layer, int end_layer,
                                   const StageLimits& limits, SearchMeter& meter) {
  if (rule_ != nullptr) return rule_->Front(stage, first_layer, end_layer);
  const PipelineSetting::Stage& facts = setting_.stage(stage);
  const bool is_all = setting_.depth() == 1;
  StageQuestion question = {
      .runs = setting_.RunsOf(first_layer, end_layer),
      .in_flight_micro_batch_count = facts.in_flight,
      .keeps_outputs = facts.keeps_outputs,
      .extra_communicator_count = facts.extra_communicator_count,
      .gradient_bucket = setting_.costs().runtime().gradient_bucket,
      .joins_passes = keeps_ != FrontKeeps::kAll,
      .ignores_sync = keeps_ == FrontKeeps::kForwardBackward && (stage > 0 || is_all),
      .first_layout_matters = stage > 0,
      .last_layout_matters = stage + 1 < setting_.depth()};
  question.layout_classes = layout_classes_;
  if (question.ignores_sync && is_all) {
    question.sync_share = 1.0 / setting_.recurrence().micro_batch_count();
  }
  const double range = question.ignores_sync ? NeighbourRange(stage, first_layer,
                                                              question.runs.back().definition_index)
                                             : 0.0;
  std::vector<Entry>& entries =
      entries_[Key(question.runs, question.keeps_outputs, question.extra_communicator_count,
                   stage == 0, stage + 1 == setting_.depth(), range)];
  for (const Entry& entry : entries) {
    if (facts.in_flight >= entry.least_in_flight && facts.in_flight <= entry.max_in_flight &&
        Covers(entry.limits, limits)) {
      return *entry.front;
    }
  }
  // The bound of the stage does not depend on the limits.
  double bound = -1.0;
  for (const Entry& entry : entries) {
    if (entry.least_in_flight == facts.in_flight) bound = entry.bound;
  }
  if (bound < 0.0 && keeps_ != FrontKeeps::kAll) {
    bound = StageBound(setting_.table(), question, setting_.budget(),
                       {1.0, 1.0, question.sync_share, kInfinity});
  }
  entries.push_back(Solve(question, range, bound, limits, meter));
  return *entries.back().front;
}

FrontCache::Entry FrontCache::Solve(StageQuestion question, double range, double bound,
                                    const StageLimits& limits, SearchMeter& meter) {
  // The meter asks by itself after some thousand states. A front with many layouts or unlike layers
  // takes milliseconds and has few, so the limits are asked before each.
  meter.ShouldContinue();
  const double count = setting_.recurrence().micro_batch_count();
  Entry entry;
  entry.bound = bound;
  entry.limits = {limits.forward_backward * kAhead, limits.forward_backward_sync * kAhead,
                  limits.work * kAhead};
  StageFront front;
  if (grain_ > 0.0 && bound > 0.0 && bound < kInfinity) {
    double layer_count = 0.0;
    for (const DefinitionRun& run : question.runs) layer_count += run.layer_count;
    question.pass_grain = Seconds::Of(bound * grain_ / layer_count);
    question.sync_grain = question.pass_grain * count;
  }
  if (question.ignores_sync) {
    front = SolveForwardBackward(question, range, bound, entry.limits.forward_backward, meter);
    entry.limits.forward_backward_sync = entry.limits.work = kInfinity;
  } else {
    std::vector<LinearCut> cuts;
    const auto add = [&cuts](double passes, double sync, double limit) {
      if (limit < kInfinity) cuts.push_back({passes, passes, sync, limit});
    };
    add(1.0, 0.0, entry.limits.forward_backward);
    add(1.0, 1.0, entry.limits.forward_backward_sync);
    add(count, 1.0, entry.limits.work);
    front = SolveStage(setting_.table(), question, setting_.budget(), cuts, allowed_, meter);
  }
  if (keeps_ != FrontKeeps::kAll && grain_ == 0.0) {
    for (StageChoice& choice : front.choices) SumTimes(setting_.table(), question.runs, choice);
  }
  entry.least_in_flight = question.in_flight_micro_batch_count;
  entry.max_in_flight =
      front.is_complete ? MaxInFlight(question, front) : question.in_flight_micro_batch_count;
  entry.front = std::make_unique<const StageFront>(std::move(front));
  return entry;
}

// Finds the shortest forward and backward time, and choices that are longer by no more than other
// layouts can save with their neighbours; all others are never better. The shortest is searched
// first, in a small window above the bound. Sets `cutoff` to infinity if the result contains
// everything that matters.
StageFront FrontCache::SolveForwardBackward(const StageQuestion& question, double range,
                                            double bound, double& cutoff, SearchMeter& meter) {
  FrontStage stage = MakeFrontStage(setting_.table(), question, setting_.budget(), allowed_);
  const auto solve = [&](double window_end) {
    const LinearCut cut = {1.0, 1.0, 0.0, window_end};
    return SolveFront(stage, {&cut, 1}, meter);
  };
  if (!(range < kInfinity) || !(bound > 0.0)) return solve(cutoff);
  // Rounded times may be below the bound.
  const double first = bound * (1.0 - grain_);
  WindowGrowth window(kFirstFrontExcess + kFirstGrain * grain_);
  double window_end = std::min(cutoff, first * (1.0 + window.excess()));
  StageFront front;
  for (;;) {
    const int64_t states_before = meter.expanded_state_count();
    front = solve(window_end);
    if (!front.is_complete || !front.choices.empty() || window_end >= cutoff) break;
    window.Widen(meter.expanded_state_count() - states_before);
    window_end = std::min(cutoff, first * (1.0 + window.excess()));
  }
  if (front.choices.empty() || !front.is_complete) return front;
  double least = kInfinity;
  for (const StageChoice& choice : front.choices) {
    least = std::min(least, (choice.forward + choice.backward).value());
    stage.known.push_back(
        {choice.first_layout, choice.last_layout, choice.forward + choice.backward});
  }
  const double enough = (least + 2.0 * range) * (1.0 + 1e-12);
  // The front is solved slightly beyond the cutoff, so that it is not solved again for a slightly
  // larger one.
  if (enough > window_end) AddBetter(question, solve(enough), front);
  cutoff = kInfinity;
  return front;
}

double FrontCache::NeighbourRange(int stage, int first_layer, int last_definition) {
  double range = 0.0;
  if (stage > 0) {
    range +=
        SendRange(setting_.definition_of(first_layer - 1), setting_.stage(stage - 1).leaves_node);
  }
  if (stage + 1 < setting_.depth()) {
    range += SendRange(last_definition, setting_.stage(stage).leaves_node);
  }
  // The difference of two infinite times is not a number.
  return range < kInfinity ? range : kInfinity;
}

// Returns the difference between the longest and the shortest message over all layouts on both
// sides; infinite if some layouts may not be neighbours.
double FrontCache::SendRange(int definition, bool leaves_node) {
  const auto [found, is_new] = send_ranges_.try_emplace({definition, leaves_node}, 0.0);
  if (!is_new) return found->second;
  double least = kInfinity;
  double longest = 0.0;
  const int layout_count = setting_.table().layout_count();
  for (int from = 0; from < layout_count; ++from) {
    for (int to = 0; to < layout_count; ++to) {
      const double send = setting_.table().Send(definition, from, to, leaves_node).value();
      least = std::min(least, send);
      longest = std::max(longest, send);
    }
  }
  found->second = longest - least;
  return found->second;
}

}  // namespace parplan
