#include "planner/planners/galvatron/bmw_walk.h"

#include <set>
#include <utility>

#include "planner/cost/predict_plan.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {
namespace {

// Returns [stage] the layers of a partition of units.
std::vector<int> LayerCounts(const GalvatronTables& tables, const Partition& partition) {
  std::vector<int> counts;
  auto unit = tables.kind_of_unit().begin();
  for (const int unit_count : partition) {
    int layers = 0;
    for (int index = 0; index < unit_count; ++index, ++unit) {
      layers += static_cast<int>(tables.kinds()[*unit].definitions.size());
    }
    counts.push_back(layers);
  }
  return counts;
}

}  // namespace

absl::string_view MeasureName(MemoryMeasure measure) {
  switch (measure) {
    case MemoryMeasure::kFastest:
      return "fastest";
    case MemoryMeasure::kNothingRecomputed:
      return "nothing_recomputed";
    case MemoryMeasure::kLeast:
      return "least";
  }
  return "";
}

Partition EvenUnits(const GalvatronTables& tables) {
  std::vector<char> counts;
  for (const int kind : tables.kind_of_unit()) {
    counts.push_back(tables.kinds()[kind].has_transformer ? 1 : 0);
  }
  return EvenSplit(counts, tables.pipeline_parallel_degree());
}

BalanceDegrees DegreesOfPlan(const PredictedPlan& plan) {
  StageFigures figures;
  for (const StagePrediction& stage : plan.prediction.stages) {
    figures.times.push_back((stage.forward + stage.backward) *
                                static_cast<double>(plan.plan.micro_batch_count) +
                            stage.gradient_sync + stage.optimizer_step);
    figures.peaks.push_back(stage.peak_memory());
  }
  return DegreesOf(figures);
}

void WalkPartitions(const GalvatronTables& tables, GalvatronStages& stages,
                    const std::function<bool(MemoryMeasure, const AdjustmentStep&,
                                             const std::vector<const GalvatronStage*>&)>& on_step,
                    const std::function<void(WalkEnd)>& on_end, int64_t max_state_count) {
  const Partition even = EvenUnits(tables);
  std::vector<const GalvatronStage*> solved;
  const auto solve = [&](const Partition& partition) -> std::optional<StageFigures> {
    StageFigures figures;
    solved.clear();
    int unit = 0;
    for (size_t stage = 0; stage < partition.size(); ++stage) {
      const GalvatronStage* const each =
          stages.Solve(unit, partition[stage], static_cast<int>(stage));
      if (each == nullptr) return std::nullopt;
      solved.push_back(each);
      figures.times.push_back(each->time);
      figures.peaks.push_back(each->peak);
      unit += partition[stage];
    }
    return figures;
  };
  const int64_t last_state = stages.expanded_state_count() + max_state_count;
  std::set<std::pair<Partition, Bytes>> walked;
  bool goes_on = true;
  for (const MemoryMeasure measure :
       {MemoryMeasure::kFastest, MemoryMeasure::kNothingRecomputed, MemoryMeasure::kLeast}) {
    if (!goes_on) return;
    const std::optional<LeastMemory> known =
        measure == MemoryMeasure::kFastest
            ? stages.MemoryAtFastest()
            : stages.LeastMemoryOfStages(
                  /*with_recompute=*/measure == MemoryMeasure::kLeast);
    if (!known) return;
    const LeastMemory& memory = *known;
    const std::optional<MemoryBalancedPartition> start =
        MemoryBalancedSplit(tables.kind_of_unit(), memory, even);
    if (!start) continue;
    const Partition by_time = TimeBalancedSplit(stages.FastestTimes(), start->layer_counts);
    const Bytes limit = LeastMemoryOf(tables.kind_of_unit(), memory, by_time);
    // A walk with an equal start and limit would hardly differ.
    if (!walked.insert({start->layer_counts, limit}).second) continue;
    const WalkEnd end = AdjustPartitions(
        start->layer_counts, by_time,
        [&](const Partition& partition) {
          return LeastMemoryOf(tables.kind_of_unit(), memory, partition);
        },
        solve,
        [&](const AdjustmentStep& step) {
          goes_on = on_step(measure, step, solved);
          // The time-balanced partition comes next.
          if (step.verdict == PartitionVerdict::kStart) return goes_on;
          return goes_on && stages.expanded_state_count() < last_state;
        });
    if (on_end) on_end(end);
  }
}

std::vector<ExplainedWalk> ExplainWalks(const PlanningProblem& problem, const CostModel& costs,
                                        const Plan& plan, const SearchControl& control,
                                        int64_t max_state_count) {
  std::vector<ExplainedWalk> walks;
  const StrategySpace space(problem, costs);
  const int degree = plan.pipeline_parallel_degree();
  if (degree == 1 || !space.dimensions().has(SearchDimension::kUnevenStages)) return walks;
  SearchMeter meter(control);
  PlanEvaluator evaluator(problem, costs);
  for (const bool with_recompute : {false, true}) {
    if (with_recompute && !space.dimensions().has(SearchDimension::kFullRecompute)) break;
    const GalvatronTables all(space, costs, degree, plan.global_batch_size / plan.micro_batch_count,
                              with_recompute);
    if (!all.usable()) continue;
    for (const GalvatronTables& tables : all.Choices(space)) {
      GalvatronStages stages(problem, costs, tables, plan.schedule, plan.micro_batch_count, meter);
      std::optional<MemoryMeasure> last;
      const auto add = [&](MemoryMeasure measure, const AdjustmentStep& step,
                           const std::vector<const GalvatronStage*>& solved) {
        if (measure != last) {
          walks.push_back({.with_recompute = with_recompute, .measure = measure});
        }
        last = measure;
        ExplainedStep explained{.step = step, .layer_counts = LayerCounts(tables, step.partition)};
        if (step.figures) {
          explained.plan =
              PredictedPlan{stages.PlanOf(step.partition, plan.global_batch_size, solved), {}};
          explained.plan->prediction = evaluator.Predict(explained.plan->plan);
          explained.degrees = DegreesOfPlan(*explained.plan);
        }
        walks.back().steps.push_back(std::move(explained));
        return !meter.stopped();
      };
      WalkPartitions(
          tables, stages, add, [&](WalkEnd end) { walks.back().end = end; }, max_state_count);
    }
  }
  return walks;
}

}  // namespace parplan
