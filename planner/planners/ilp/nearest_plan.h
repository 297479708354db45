// From the operators' strategies to a plan that executors can run.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_NEAREST_PLAN_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_NEAREST_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// What one layer of a definition takes on one device in the solution of the program.
struct LayerShare {
  double state_bytes = 0.0;
  double kept_bytes = 0.0;
};

// How a global batch is cut.
struct BatchCut {
  int64_t micro_batch_size = 1;
  int64_t micro_batch_count = 1;
  int64_t global_batch_size() const { return micro_batch_size * micro_batch_count; }
};

// The strategies a layer may have in one stage of all devices: tensor and data
// parallelism in either order with any sharding, no recomputation, as the problem's
// dimensions and target allow; ascending. Empty when there are none.
std::vector<Strategy> OneStageStrategies(const PlanningProblem& problem, const CostModel& costs,
                                         int definition_index, int64_t micro_batch_size);

// The plan of one stage in which the layers of every definition have the strategy nearest
// to `shares` [definition]: the distance is the difference of states plus that of what is
// kept, in bytes, up to a hundredth of the share; then the least time a step; then the
// order of strategies. Without `per-layer` transformer layers share the one that is
// nearest to all of them, and without `end-strategies` embedding and head follow the
// layers beside them. Nothing when some layer has no strategy.
std::optional<Plan> NearestPlan(const PlanningProblem& problem, const CostModel& costs,
                                const std::vector<LayerShare>& shares, const BatchCut& cut);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_NEAREST_PLAN_H_
