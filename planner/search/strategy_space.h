// The strategies of the declared space (docs/search.md): every way to spread a layer
// over the ranks of a stage that rules, dimensions and target leave.

#ifndef PARPLAN_PLANNER_SEARCH_STRATEGY_SPACE_H_
#define PARPLAN_PLANNER_SEARCH_STRATEGY_SPACE_H_

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

// Of one problem. Keeps references to its arguments.
class StrategySpace {
 public:
  StrategySpace(const PlanningProblem& problem, const CostModel& costs);

  // Pipeline degrees, ascending: divisors of the devices within rules, target and the
  // number of layers; only 1 without the dimension.
  std::vector<int> PipelineDegrees() const;
  // Micro-batch counts of a batch, ascending.
  std::vector<int64_t> MicroBatchCounts(int64_t global_batch_size) const;
  // Schedules of a pipeline of so many stages, 1F1B first. One for one stage.
  std::vector<Schedule> Schedules(int pipeline_parallel_degree) const;

  // Of a layer of `definition_index` in a stage of `devices / pipeline_parallel_degree`
  // ranks, ascending and distinct; empty when none applies. Each passes
  // `CheckPlanStructure`.
  std::vector<Strategy> Strategies(int definition_index, int pipeline_parallel_degree,
                                   int64_t micro_batch_size) const;
  // The same without recomputation and sharding.
  std::vector<Strategy> BareStrategies(int definition_index, int pipeline_parallel_degree,
                                       int64_t micro_batch_size) const;

  const PlanningProblem& problem() const { return problem_; }
  DimensionSet dimensions() const { return dimensions_; }
  const TargetLimits& target() const { return target_; }

  // Whether a plan may have both strategies, of layers of these definitions: by
  // `per-layer`, `end-strategies` and the target's inner axis.
  bool GoTogether(int definition_a, const Strategy& a, int definition_b, const Strategy& b) const;

 private:
  const PlanningProblem& problem_;
  const CostModel& costs_;
  DimensionSet dimensions_;
  const TargetLimits& target_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STRATEGY_SPACE_H_
