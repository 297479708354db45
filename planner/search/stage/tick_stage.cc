#include "planner/search/stage/tick_stage.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "planner/search/base/search_numbers.h"
#include "planner/search/stage/suffix_costs.h"

namespace parplan {
namespace {

using Options = std::vector<TickStage::Option>;

// Share of a cut that options may exceed it by before they are excluded in seconds.
constexpr double kRoomOfCuts = 1e-9;

// Returns [kind] the options that may be part of an assignment within the cuts, whatever its
// memory: not those that exceed a limit even if every other layer takes the cheapest option. None
// at all if nothing is within a cut. Cases have better bounds, but each looks at its options
// several times.
std::vector<std::vector<const FrontOption*>> OptionsWithin(const FrontStage& stage,
                                                           absl::Span<const LinearCut> cuts) {
  std::vector<std::vector<const FrontOption*>> within(stage.kinds.size());
  for (size_t kind = 0; kind < stage.kinds.size(); ++kind) {
    within[kind].reserve(stage.kinds[kind].options.size());
    for (const FrontOption& option : stage.kinds[kind].options) within[kind].push_back(&option);
  }
  std::vector<double> layer_counts(stage.kinds.size(), 0.0);
  for (const FrontRun& run : stage.runs) layer_counts[run.kind] += run.layer_count;
  std::vector<double> least(stage.kinds.size());
  for (const LinearCut& cut : cuts) {
    if (cut.limit == kInfinity) continue;
    // Options with joined passes have both in `forward`.
    const auto cost = [&cut](const FrontOption* option) {
      return cut.forward * option->forward.value() + cut.backward * option->backward.value() +
             cut.sync * option->sync.value();
    };
    double bound = 0.0;
    for (size_t kind = 0; kind < within.size(); ++kind) {
      least[kind] = kInfinity;
      for (const FrontOption* const option : within[kind]) {
        least[kind] = std::min(least[kind], cost(option));
      }
      bound += least[kind] * layer_counts[kind];
    }
    // More room than rounding to ticks takes: what is left is excluded by the cuts in ticks.
    const double room = cut.limit + std::abs(cut.limit) * kRoomOfCuts - bound;
    for (size_t kind = 0; kind < within.size(); ++kind) {
      std::erase_if(within[kind],
                    [&](const FrontOption* option) { return cost(option) > room + least[kind]; });
    }
  }
  return within;
}

}  // namespace

TickStage ToTicks(const FrontStage& stage, absl::Span<const LinearCut> cuts) {
  const std::vector<std::vector<const FrontOption*>> within = OptionsWithin(stage, cuts);
  // The largest sum of any assignment.
  std::vector<double> longest(stage.kinds.size(), 0.0);
  for (size_t kind = 0; kind < stage.kinds.size(); ++kind) {
    for (const FrontOption* const option : within[kind]) {
      longest[kind] =
          std::max(longest[kind], (option->forward + option->backward + option->sync).value());
    }
    double move = 0.0;
    for (Seconds transition : stage.kinds[kind].transitions) {
      if (transition.is_finite()) move = std::max(move, transition.value());
    }
    longest[kind] += move;
  }
  double whole = 0.0;
  double layer_count = 0.0;
  for (const FrontRun& run : stage.runs) {
    whole += longest[run.kind] * run.layer_count;
    layer_count += run.layer_count;
  }
  for (const KnownTime& known : stage.known) whole = std::max(whole, known.time.value());
  const TickScale scale(Seconds::Of(whole));

  TickStage ticks;
  ticks.layout_count = stage.layout_count;
  ticks.runs = stage.runs;
  ticks.has_step = stage.has_step;
  ticks.gradient_bucket = stage.gradient_bucket.count();
  ticks.joins_passes = stage.joins_passes;
  ticks.first_layout_matters = stage.first_layout_matters;
  ticks.last_layout_matters = stage.last_layout_matters;
  for (Bytes bytes : stage.output_held) ticks.output_bytes.push_back(bytes.count());
  for (size_t kind = 0; kind < stage.kinds.size(); ++kind) {
    Options& options = ticks.options.emplace_back();
    for (const FrontOption* const option : within[kind]) {
      options.push_back({.option = option->option,
                         .layout = option->layout,
                         .cost = {scale.ToTicks(option->forward), scale.ToTicks(option->backward),
                                  scale.ToTicks(option->sync), option->held.count(),
                                  option->step_held.count(), option->step_held_with_bucket.count()},
                         .transient = option->transient.count(),
                         .budget = option->budget.count()});
    }
    std::vector<int64_t>& moves = ticks.half_resharding.emplace_back();
    for (Seconds transition : stage.kinds[kind].transitions) {
      moves.push_back(transition.is_finite() ? scale.ToTicks(transition * 0.5) : TickStage::kNever);
    }
  }
  const double ticks_per_second = 1.0 / scale.ToSeconds(1).value();
  for (const LinearCut& cut : cuts) {
    if (cut.limit == kInfinity) continue;
    LinearCut added = cut;
    // Passes are joined in `forward`, but transitions are still half forward and half backward.
    if (stage.joins_passes) added.backward = cut.forward;
    // Half a tick per layer and transition, plus rounding of sums of priced bytes in double.
    const double rounding = (cut.forward + cut.backward + cut.sync) * 2.0 * (layer_count + 1.0) +
                            std::abs(cut.limit) * ticks_per_second * 1e-12;
    added.limit = cut.limit * ticks_per_second + rounding;
    ticks.cuts.push_back(added);
  }
  if (ticks.cuts.empty()) ticks.cuts.push_back({1.0, 1.0, 1.0, whole * 4.0 * ticks_per_second});
  ticks.shortest_half_resharding.resize(stage.kinds.size());
  for (size_t run = 1; run < stage.runs.size(); ++run) {
    std::vector<double>& shortest = ticks.shortest_half_resharding[stage.runs[run].kind];
    if (stage.runs[run].layer_count > 1 && shortest.empty()) {
      const int kind = stage.runs[run].kind;
      std::vector<int> layouts;
      for (const TickStage::Option& option : ticks.options[kind]) layouts.push_back(option.layout);
      shortest = ShortestHalfResharding(ticks.half_resharding[kind], stage.layout_count, layouts);
    }
  }
  const auto has_sync = [](const TickStage::Option& option) { return option.cost.sync > 0; };
  if (stage.joins_passes && cuts.size() == 1 && cuts.front().forward > 0.0 &&
      cuts.front().sync == 0.0 &&
      std::none_of(ticks.options.begin(), ticks.options.end(), [&](const Options& options) {
        return std::any_of(options.begin(), options.end(), has_sync);
      })) {
    ticks.known_times.assign(static_cast<size_t>(stage.layout_count) * stage.layout_count,
                             TickStage::kNever);
    for (const KnownTime& known : stage.known) {
      int64_t& time = ticks.known_times[ticks.EndsOf(known.first_layout, known.last_layout)];
      time = std::min(time, scale.ToTicks(known.time));
    }
  }
  return ticks;
}

}  // namespace parplan
