#include "planner/planners/exact/interleaved/interleaved_search.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "planner/planners/exact/interleaved/group_sizes.h"
#include "planner/planners/exact/interleaved/interleaved_choices.h"
#include "planner/planners/exact/interleaved/interleaved_relaxation.h"
#include "planner/planners/exact/interleaved/interleaved_rounding.h"
#include "planner/planners/exact/interleaved/uneven_leaves.h"
#include "planner/planners/exact/interleaved/uneven_search.h"
#include "planner/planners/exact/pipeline/mask_floor.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Choices for definitions of one candidate after which the rest is left with its bound, which
// limits the time of one candidate. Not measured for other values.
constexpr int64_t kMaxChoices = 40'000;
// Passes of simulated schedules of one candidate, because simulating plans of many stages and
// micro-batches takes long. Not measured for other values.
constexpr int64_t kMaxPasses = 4'000'000;
// Plans of uneven virtual stages that are simulated for one candidate. With 128 the plans of
// Llama-3-70B on 64 H100 and of Llama-7B with 512 layers on 1,024 are 0.8 % slower, and those of
// seven other questions the same; with 1,024 the slowest of the nine takes 1.1 s instead of 0.9 s.
constexpr int64_t kLooksOfCandidate = 1024;
// Subgradient steps towards better prices: to bound a candidate, and before its plans are searched.
// Not measured for other numbers.
constexpr int kBoundSteps = 30;
constexpr int kSearchSteps = 120;

// Returns a setting of which only the parts that do not depend on the schedule are used.
PipelineSetting SettingOf(const StrategySpace& space, const CostModel& costs,
                          const OptionTable& table, PipelineCandidate candidate) {
  candidate.schedule = kDefaultSchedule;
  return {space, costs, table, candidate, space.problem().usable_memory()};
}

bool IsInSpace(const PipelineCandidate& candidate, const InterleavedPartition& partition) {
  return FitsPassLimit(candidate.micro_batch_count,
                       static_cast<int>(partition.layer_counts.size()));
}

// Returns the least times of layers without synchronisation.
DefinitionTimes TimesOf(const LeastTimes& least) {
  DefinitionTimes times;
  for (size_t i = 0; i < least.forward.size(); ++i) {
    times.forward.push_back(least.forward[i].value());
    times.forward_backward.push_back(least.forward_and_backward[i].value());
    times.sync.push_back(0.0);
  }
  return times;
}

std::vector<const MaskedOptions*> UsableOf(const std::deque<MaskedOptions>& masked) {
  std::vector<const MaskedOptions*> usable;
  for (const MaskedOptions& each : masked) {
    if (each.usable) usable.push_back(&each);
  }
  return usable;
}

// Returns the least bound over some partitions, with the memory of the candidate and steps of
// `micro_batch_count`; `cutoff` if that is less, and 0 if the meter stopped.
Seconds LeastBound(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                   const PipelineCandidate& candidate, const InterleavedPartitions& partitions,
                   int64_t micro_batch_count, Seconds cutoff, SearchMeter& meter) {
  const PipelineSetting setting = SettingOf(space, costs, table, candidate);
  const double overhead = costs.step_overhead().value();
  double bound = cutoff.value();
  const UnevenBound uneven(space.problem().model(), candidate.pipeline_parallel_degree);
  // Steps of more micro-batches than the setting has take longer than those it has.
  MaskFloor floor(setting, /*interleaves=*/true, cutoff.value() - overhead);
  for (const OptionMask& mask : RelaxedMasks(space, table, floor.Filter(), meter.Worker())) {
    if (!meter.ShouldContinue()) return Seconds();
    const MaskedOptions masked = MaskedOptionsOf(setting, mask);
    if (!masked.usable) continue;
    bound =
        LeastUnevenBound(setting, masked, uneven, partitions.unlisted, micro_batch_count, bound);
    if (partitions.listed.empty()) continue;
    const LayerMenus menus(setting, mask, meter);
    for (const InterleavedPartition& partition : partitions.listed) {
      // Relaxations of many stages take a millisecond each.
      if (!meter.ShouldContinue()) return Seconds();
      InterleavedRelaxation prices(
          setting, menus, InterleavedLoads(setting, partition.layer_counts, micro_batch_count),
          micro_batch_count);
      double priced = prices.QuickBound() + overhead;
      if (priced < bound) priced = prices.Improve(bound - overhead, kBoundSteps) + overhead;
      if (priced >= bound) continue;
      bound = masked.order.size() > kMaxDefinitionsChosen
                  ? priced
                  : PartitionChoices(setting, partition, masked, micro_batch_count, &prices,
                                     /*group_sizes=*/nullptr)
                        .LeastBound(bound);
    }
  }
  // Without masks because the meter stopped, nothing is proved.
  if (meter.stopped()) return Seconds();
  return Seconds::Of(bound);
}

}  // namespace

InterleavedBounds::InterleavedBounds(const StrategySpace& space, int pipeline_parallel_degree) {
  const InterleavedPartitions partitions = InterleavedPartitionsOf(space, pipeline_parallel_degree);
  is_uneven_apart_ = SearchesUnevenApart(space);
  if (!partitions.unlisted.empty()) {
    uneven_.emplace(space.problem().model(), pipeline_parallel_degree);
    fewest_uneven_stages_ = partitions.unlisted.front() * pipeline_parallel_degree;
  }
  for (const InterleavedPartition& partition : partitions.listed) {
    const StageCounts counts(space.problem().model(), partition.layer_counts);
    partitions_.push_back(
        {counts.stage_count(), InterleavedPaths(counts, pipeline_parallel_degree)});
  }
}

Seconds InterleavedBounds::Bound(const LeastTimes& least, int64_t micro_batch_count) const {
  const DefinitionTimes times = TimesOf(least);
  double bound = is_uneven_apart_ ? kInfinity : QuickUneven(times, micro_batch_count);
  for (const Partition& partition : partitions_) {
    if (!FitsPassLimit(micro_batch_count, partition.stage_count)) continue;
    bound = std::min(bound, partition.paths.Bound(times, micro_batch_count, {}, {}, 0.0));
  }
  return Seconds::Of(bound);
}

Seconds InterleavedBounds::UnevenBound(const LeastTimes& least, int64_t micro_batch_count) const {
  return Seconds::Of(QuickUneven(TimesOf(least), micro_batch_count));
}

Seconds InterleavedBounds::GroupSizeBound(const LeastTimes& least,
                                          int64_t micro_batch_count) const {
  const DefinitionTimes times = TimesOf(least);
  double bound = QuickUneven(times, micro_batch_count);
  for (const Partition& partition : partitions_) {
    if (!FitsPassLimit(micro_batch_count, partition.stage_count)) continue;
    bound = std::min(bound, partition.paths.BoundOfDevices(times, micro_batch_count, {}));
  }
  return Seconds::Of(bound);
}

double InterleavedBounds::QuickUneven(const DefinitionTimes& times,
                                      int64_t micro_batch_count) const {
  if (!uneven_.has_value() || !FitsPassLimit(micro_batch_count, fewest_uneven_stages_)) {
    return kInfinity;
  }
  return uneven_->Quick(times, micro_batch_count);
}

Seconds InterleavedMemoryBound(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, const PipelineCandidate& candidate,
                               Seconds cutoff, SearchMeter& meter) {
  InterleavedPartitions partitions =
      SearchedPartitionsOf(space, candidate.pipeline_parallel_degree);
  std::erase_if(partitions.listed,
                [&](const InterleavedPartition& each) { return !IsInSpace(candidate, each); });
  std::erase_if(partitions.unlisted, [&](int count) {
    return !FitsPassLimit(candidate.micro_batch_count, count * candidate.pipeline_parallel_degree);
  });
  return LeastBound(space, costs, table, candidate, partitions, candidate.micro_batch_count, cutoff,
                    meter);
}

Seconds InterleavedSteadyBound(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, const InterleavedPartitions& partitions,
                               int64_t micro_batch_count, Seconds cutoff, SearchMeter& meter) {
  const int depth = table.pipeline_parallel_degree();
  const PipelineCandidate fewest = {.micro_batch_count = depth, .pipeline_parallel_degree = depth};
  return LeastBound(space, costs, table, fewest, partitions, micro_batch_count, cutoff, meter);
}

PipelineOutcome SearchInterleaved(const StrategySpace& space, const CostModel& costs,
                                  const OptionTable& table, const PipelineCandidate& candidate,
                                  Seconds cutoff, int wanted, SearchMeter& meter) {
  const PipelineSetting setting = SettingOf(space, costs, table, candidate);
  const InterleavedPartitions partitions =
      SearchedPartitionsOf(space, candidate.pipeline_parallel_degree);
  InterleavedFinds finds = {cutoff, PlanList(wanted), kMaxChoices * meter.effort(),
                            kMaxPasses * meter.effort()};
  PlanEvaluator evaluator(space.problem(), costs);
  const double overhead = costs.step_overhead().value();
  const int64_t count = candidate.micro_batch_count;
  struct Place {
    PartitionChoices* choices;
    PartitionChoices::Start start;
  };
  std::deque<MaskedOptions> masked;
  std::deque<LayerMenus> menus;
  std::deque<InterleavedRelaxation> prices;
  std::deque<PartitionChoices> choices;
  std::vector<Place> places;
  MaskFloor floor(setting, /*interleaves=*/true, cutoff.value() - overhead);
  for (const OptionMask& mask : PlanWideMasks(space, table, floor.Filter(), meter.Worker())) {
    if (!meter.ShouldContinue()) break;
    masked.push_back(MaskedOptionsOf(setting, mask));
    if (!masked.back().usable) continue;
    menus.emplace_back(setting, mask, meter);
    if (meter.stopped()) break;
    if (masked.back().order.size() > kMaxDefinitionsChosen) {
      RoundInterleaved(setting, mask, masked.back(), menus.back(), partitions.listed, evaluator,
                       finds, meter);
      continue;
    }
    for (const InterleavedPartition& partition : partitions.listed) {
      if (!meter.ShouldContinue()) break;
      if (!IsInSpace(candidate, partition)) continue;
      InterleavedRelaxation& price = prices.emplace_back(
          setting, menus.back(), InterleavedLoads(setting, partition.layer_counts, count), count);
      if (price.QuickBound() + overhead >= cutoff.value()) continue;
      if (price.Improve(cutoff.value() - overhead, kSearchSteps) + overhead >= cutoff.value())
        continue;
      choices.emplace_back(setting, partition, masked.back(), count, &price,
                           /*group_sizes=*/nullptr);
      for (const PartitionChoices::Start& start : choices.back().Starts(cutoff.value())) {
        places.push_back({&choices.back(), start});
      }
    }
  }
  // Plans that were not looked at have no bound.
  if (meter.stopped()) finds.least_unseen = 0.0;
  // The start with the least bound comes first: the plans it finds exclude most of the others.
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.start.bound < b.start.bound; });
  for (const Place& place : places) {
    place.choices->Search(place.start, evaluator, finds, meter);
  }
  if (!partitions.unlisted.empty()) {
    int64_t looks_left = kLooksOfCandidate * meter.effort();
    const double bound = SearchUneven(setting, UsableOf(masked), partitions.unlisted,
                                      /*group_sizes=*/{0}, evaluator, finds, looks_left, meter);
    if (bound < CutoffOf(setting, finds)) {
      finds.least_unseen = std::min(finds.least_unseen, bound);
    }
  }
  PipelineOutcome outcome;
  outcome.bound = cutoff;
  outcome.plans = finds.plans.Take();
  outcome.is_exact = !meter.stopped() && finds.least_unseen == kInfinity;
  if (!outcome.plans.empty()) {
    outcome.bound = std::min(outcome.bound, outcome.plans.front().prediction.step);
  }
  outcome.bound = std::min(outcome.bound, Seconds::Of(finds.least_unseen));
  return outcome;
}

PipelineOutcome SearchUnevenStages(const StrategySpace& space, const CostModel& costs,
                                   const OptionTable& table, const PipelineCandidate& candidate,
                                   Seconds cutoff, int wanted, int64_t& looks_left,
                                   SearchMeter& meter) {
  PipelineOutcome outcome;
  outcome.bound = cutoff;
  const std::vector<int> counts =
      UnlistedVirtualStageCounts(space, candidate.pipeline_parallel_degree);
  if (counts.empty()) return outcome;
  const PipelineSetting setting = SettingOf(space, costs, table, candidate);
  InterleavedFinds finds = {cutoff, PlanList(wanted), kMaxChoices * meter.effort(),
                            kMaxPasses * meter.effort()};
  PlanEvaluator evaluator(space.problem(), costs);
  std::deque<MaskedOptions> masked;
  MaskFloor floor(setting, /*interleaves=*/true, cutoff.value() - costs.step_overhead().value());
  for (const OptionMask& mask : PlanWideMasks(space, table, floor.Filter(), meter.Worker())) {
    if (!meter.ShouldContinue()) break;
    masked.push_back(MaskedOptionsOf(setting, mask));
  }
  // Plans that were not looked at have no bound.
  const bool is_cut = meter.stopped();
  const double bound = SearchUneven(setting, UsableOf(masked), counts, /*group_sizes=*/{0},
                                    evaluator, finds, looks_left, meter);
  if (is_cut) {
    outcome.bound = Seconds();
    outcome.plans = finds.plans.Take();
    return outcome;
  }
  outcome.bound = std::min(cutoff, Seconds::Of(bound));
  outcome.plans = finds.plans.Take();
  return outcome;
}

PipelineOutcome SearchGroupSizes(const StrategySpace& space, const CostModel& costs,
                                 const OptionTable& table, const PipelineCandidate& candidate,
                                 Seconds cutoff, int wanted, int64_t& looks_left,
                                 SearchMeter& meter) {
  PipelineOutcome outcome;
  if (space.problem().model().layer_definitions().size() > kMaxDefinitionsChosen) return outcome;
  const PipelineSetting setting = SettingOf(space, costs, table, candidate);
  const int64_t count = candidate.micro_batch_count;
  const GroupSizes sizes = GroupSizesOf(space, candidate.pipeline_parallel_degree, count);
  const InterleavedPartitions partitions =
      InterleavedPartitionsOf(space, candidate.pipeline_parallel_degree);
  InterleavedFinds finds = {cutoff, PlanList(wanted), kMaxChoices * meter.effort(),
                            kMaxPasses * meter.effort()};
  PlanEvaluator evaluator(space.problem(), costs);
  struct Place {
    PartitionChoices* choices;
    PartitionChoices::Start start;
  };
  std::deque<MaskedOptions> masked;
  std::deque<PartitionChoices> choices;
  std::vector<Place> places;
  MaskFloor floor(setting, /*interleaves=*/true, cutoff.value() - costs.step_overhead().value());
  for (const OptionMask& mask : PlanWideMasks(space, table, floor.Filter(), meter.Worker())) {
    if (!meter.ShouldContinue()) break;
    masked.push_back(MaskedOptionsOf(setting, mask));
    if (!masked.back().usable) continue;
    for (const InterleavedPartition& partition : partitions.listed) {
      if (!meter.ShouldContinue()) break;
      if (!IsInSpace(candidate, partition)) continue;
      choices.emplace_back(setting, partition, masked.back(), count, /*prices=*/nullptr, &sizes);
      for (const PartitionChoices::Start& start : choices.back().Starts(cutoff.value())) {
        places.push_back({&choices.back(), start});
      }
    }
  }
  // Plans that were not looked at have no bound.
  if (meter.stopped()) finds.least_unseen = 0.0;
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.start.bound < b.start.bound; });
  for (const Place& place : places) {
    place.choices->Search(place.start, evaluator, finds, meter);
  }
  if (!partitions.unlisted.empty()) {
    const double bound = SearchUneven(setting, UsableOf(masked), partitions.unlisted, sizes.tried,
                                      evaluator, finds, looks_left, meter);
    if (bound < CutoffOf(setting, finds)) {
      finds.least_unseen = std::min(finds.least_unseen, bound);
    }
  }
  outcome.bound = cutoff;
  outcome.plans = finds.plans.Take();
  outcome.is_exact = !meter.stopped() && finds.least_unseen == kInfinity;
  if (!outcome.plans.empty()) {
    outcome.bound = std::min(outcome.bound, outcome.plans.front().prediction.step);
  }
  outcome.bound = std::min(outcome.bound, Seconds::Of(finds.least_unseen));
  return outcome;
}

}  // namespace parplan
