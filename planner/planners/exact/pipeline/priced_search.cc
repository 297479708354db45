#include "planner/planners/exact/pipeline/priced_search.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/pipeline/layer_menus.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/planners/exact/pipeline/priced_pipeline.h"
#include "planner/planners/exact/pipeline/stage_mix.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Number of layouts in which plans are made, the cheapest at the best prices first. Each takes
// `kPartitions` partitions, so that more take longer for every mask. Not measured for other
// numbers.
constexpr int kMaxLayouts = 3;
// Partitions tried in each layout, each corrected by the stage times of the last one. Chosen by
// hand; no other number was measured.
constexpr int kPartitions = 4;
// Factor applied to the time of a stage that did not fit, so that the next partition gives it fewer
// layers. Not measured for other values.
constexpr double kTooLong = 1.05;
// Searches with less memory, if plans fit except for what the allocator keeps. Each has less by
// what plans of the last one exceeded. Not measured for other numbers.
constexpr int kMaxPricedAttempts = 3;

// Makes the plans of one setting and mask.
class PlanMaker {
 public:
  PlanMaker(const PipelineSetting& setting, const OptionMask& mask, PlanEvaluator& evaluator,
            PlanList& plans, SearchMeter& meter)
      : setting_(setting),
        mask_(mask),
        evaluator_(evaluator),
        overhead_(setting.costs().step_overhead().value()),
        plans_(plans),
        meter_(meter) {}

  // Makes plans below `cutoff` seconds, without the overhead, in the given layouts.
  void Make(const std::vector<int>& layouts, double cutoff) {
    for (const int layout : layouts) {
      if (!meter_.ShouldContinue()) return;
      MakeOf(InOneLayout(setting_.table(), mask_, layout), cutoff);
    }
    MakeOf(mask_, cutoff);
  }

  // Returns the bytes by which the best refused plan exceeded the memory; 0 if one was accepted.
  Bytes excess() const { return excess_; }

 private:
  void MakeOf(const OptionMask& part, double cutoff) {
    const LayerMenus menus(setting_, part, meter_);
    if (meter_.stopped()) return;
    PricedPipeline prices(setting_, menus);
    if (prices.Bound(cutoff, meter_) >= cutoff || meter_.stopped()) return;
    least_ = kInfinity;
    TryShape(part, prices, PartitionShape::kAsInBound, cutoff);
    if (!setting_.fixed_boundaries().empty()) return;
    if (!prices.HasOneShape()) TryShape(part, prices, PartitionShape::kEqualTimes, cutoff);
    // The partition of a space without uneven stages, so that it never has a better plan.
    const std::vector<int> even = setting_.EvenBoundaries();
    std::vector<double> factors;
    if (even.empty() || !meter_.ShouldContinue()) return;
    if (Mix(part, prices, even, factors) < std::min(cutoff, least_)) Offer(even, choices_, cutoff);
  }

  // Makes the best plan of partitions of a shape, each corrected by the stage times of the last
  // one, and offers it if it is better than those of `part` offered before.
  void TryShape(const OptionMask& part, const PricedPipeline& prices, PartitionShape shape,
                double cutoff) {
    std::vector<double> factors;
    std::vector<int> best;
    std::vector<StageChoice> best_choices;
    double least = std::min(cutoff, least_);
    for (int round = 0; round < kPartitions && meter_.ShouldContinue(); ++round) {
      const std::vector<int> boundaries = prices.Partition(shape, factors);
      if (boundaries.empty() || boundaries == best) break;
      const double step = Mix(part, prices, boundaries, factors);
      if (step < least) {
        least = step;
        best = boundaries;
        best_choices = choices_;
      }
    }
    if (!best.empty()) Offer(best, best_choices, cutoff);
  }

  // Returns the step of the schedule with stages mixed independently, up to rare waits; infinite if
  // a stage does not fit. Sets `choices_` and the factors by which stages take longer than at the
  // prices.
  double Mix(const OptionMask& part, const PricedPipeline& prices,
             const std::vector<int>& boundaries, std::vector<double>& factors) {
    const int depth = setting_.depth();
    factors.resize(depth, 1.0);
    choices_.clear();
    bool fits = true;
    for (int i = 0; i < depth; ++i) {
      std::optional<StageChoice> choice =
          MixStage(setting_, part, i, boundaries[i], boundaries[i + 1]);
      meter_.Expand(1);
      if (!choice.has_value()) {
        factors[i] *= kTooLong;
        fits = false;
        continue;
      }
      const double priced = prices.StageTime(i, boundaries[i], boundaries[i + 1]);
      if (priced > 0.0) factors[i] = (choice->forward + choice->backward).value() / priced;
      choices_.push_back(*std::move(choice));
    }
    if (!fits) return kInfinity;
    StageTimesOf(setting_, StagesOf(boundaries, choices_), times_);
    for (const StageTimes& times : times_) {
      if (!times.send.is_finite()) return kInfinity;
    }
    return PipelineStepBound(setting_.candidate().schedule, times_,
                             setting_.candidate().micro_batch_count)
        .value();
  }

  static std::vector<ChosenStage> StagesOf(const std::vector<int>& boundaries,
                                           const std::vector<StageChoice>& choices) {
    std::vector<ChosenStage> stages;
    for (size_t i = 0; i < choices.size(); ++i) {
      stages.push_back({boundaries[i], boundaries[i + 1], &choices[i]});
    }
    return stages;
  }

  void Offer(const std::vector<int>& boundaries, const std::vector<StageChoice>& choices,
             double cutoff) {
    Plan plan = AssemblePlan(setting_, StagesOf(boundaries, choices));
    const PlanScore score = evaluator_.Evaluate(plan);
    const Bytes usable = setting_.problem().usable_memory();
    if (score.peak_memory_upper > usable) {
      excess_ = std::max(excess_, score.peak_memory_upper - usable);
      return;
    }
    const double step = score.step.value() - overhead_;
    if (step >= cutoff) return;
    least_ = std::min(least_, step);
    Prediction prediction = evaluator_.Predict(plan);
    plans_.Offer({std::move(plan), std::move(prediction)});
  }

  const PipelineSetting& setting_;
  const OptionMask& mask_;
  PlanEvaluator& evaluator_;
  const double overhead_;
  PlanList& plans_;
  SearchMeter& meter_;
  std::vector<StageChoice> choices_;
  std::vector<StageTimes> times_;
  // Seconds of the best plan of a mask that was offered and fits, without the overhead.
  double least_ = kInfinity;
  Bytes excess_;
};

}  // namespace

Seconds PricedPipelineBound(const StrategySpace& space, const CostModel& costs,
                            const OptionTable& table, const PipelineCandidate& candidate,
                            Seconds cutoff, SearchMeter& meter) {
  const PipelineSetting setting(space, costs, table, candidate, space.problem().usable_memory());
  const double overhead = costs.step_overhead().value();
  double bound = kInfinity;
  for (const OptionMask& mask : RelaxedMasks(space, table, nullptr, meter.Worker())) {
    const LayerMenus menus(setting, mask, meter);
    if (meter.stopped()) return Seconds();
    PricedPipeline prices(setting, menus);
    const double enough = std::min(bound, cutoff.value() - overhead);
    bound = std::min(bound, prices.Bound(enough, meter));
    if (meter.stopped()) return Seconds();
  }
  // Without masks because the meter stopped, nothing is proved.
  if (meter.stopped()) return Seconds();
  return Seconds::Of(bound + overhead);
}

PipelineOutcome SearchPricedPipeline(const StrategySpace& space, const CostModel& costs,
                                     const OptionTable& table, const PipelineCandidate& candidate,
                                     Seconds cutoff, int wanted, SearchMeter& meter) {
  PipelineOutcome outcome;
  PlanList plans(wanted);
  PlanEvaluator evaluator(space.problem(), costs);
  const double overhead = costs.step_overhead().value();
  const double least = cutoff.value() - overhead;
  double bound = kInfinity;
  Bytes usable = space.problem().usable_memory();
  const std::vector<OptionMask> masks = PlanWideMasks(space, table, nullptr, meter.Worker());
  if (meter.stopped()) {
    outcome.is_exact = false;
    return outcome;
  }
  for (int attempt = 0; attempt < kMaxPricedAttempts; ++attempt) {
    const PipelineSetting setting(space, costs, table, candidate, usable);
    Bytes excess;
    for (const OptionMask& mask : masks) {
      const LayerMenus menus(setting, mask, meter);
      if (meter.stopped()) {
        if (attempt == 0) bound = 0.0;
        break;
      }
      PricedPipeline prices(setting, menus);
      const double each = prices.Bound(least, meter);
      // Searches with less memory serve only to find a plan; the bound is that of the first
      // attempt.
      if (attempt == 0) bound = std::min(bound, each);
      if (meter.stopped() || each >= least) continue;
      PlanMaker maker(setting, mask, evaluator, plans, meter);
      maker.Make(prices.CheapestLayouts(mask, kMaxLayouts), least);
      excess = std::max(excess, maker.excess());
    }
    if (!plans.plans().empty() || excess == Bytes() || meter.stopped()) break;
    usable -= excess;
  }
  outcome.bound = Seconds::Of(bound + overhead);
  outcome.plans = plans.Take();
  outcome.is_exact = bound >= least;
  return outcome;
}

}  // namespace parplan
