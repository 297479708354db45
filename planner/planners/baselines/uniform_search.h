// Baselines with one strategy for all layers and stages of equal depth, plan by plan.

#ifndef PARPLAN_PLANNER_PLANNERS_BASELINES_UNIFORM_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_BASELINES_UNIFORM_SEARCH_H_

#include <functional>
#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/model/strategy.h"

namespace parplan {

// Which plans a grid has, besides what the problem allows.
struct UniformGrid {
  // Of these those that vary a layer, an end or a boundary by itself have no effect.
  DimensionSet dimensions;
  // Of a transformer layer's strategies those that count.
  std::function<bool(const Strategy&)> allows;
};

// The best of all plans of the grid: batch, pipeline degree, micro-batch count, schedule,
// virtual stages and the strategy of the transformer layers, which embedding and head
// follow but for recomputation. Each plan is played by `PlanEvaluator` unless the work of
// its transformer layers alone takes longer than the best plan. So the answer is proved
// over the grid, and so is the smallest memory where nothing fits. An independent check on
// `exact`, whose space contains it. O(plans) time; no alternatives, no front.
//
// Nothing when no plan of the grid exists whatever the memory.
std::optional<PlanningResult> SearchUniform(const PlanningProblem& problem, const CostModel& costs,
                                            const UniformGrid& grid, const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_BASELINES_UNIFORM_SEARCH_H_
