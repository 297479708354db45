// The plan, runnable by executors, that is nearest to a choice of operator strategies. The planners
// of ilp_planners.h use it.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_NEAREST_PLAN_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_NEAREST_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Bytes of one layer of a definition on one device, in a solution of the programme.
struct LayerShare {
  // Weights, gradients and optimizer states; tensors kept from forward to backward.
  double state_bytes = 0.0;
  double kept_bytes = 0.0;
};

// A global batch as micro-batches.
struct BatchCut {
  int64_t micro_batch_size = 1;
  int64_t micro_batch_count = 1;
  // Returns the samples of a step.
  int64_t global_batch_size() const { return micro_batch_size * micro_batch_count; }
};

// Returns the strategies a layer may have in one stage of all devices: tensor and data parallelism
// in either order with any sharding, no recomputation, as the problem's dimensions and target
// allow, and with a data-parallel degree that divides the micro-batch; ascending. Empty if there
// are none.
std::vector<Strategy> OneStageStrategies(const PlanningProblem& problem, const CostModel& costs,
                                         int definition_index, int64_t micro_batch_size);

// Returns the plan of one stage in which the layers of every definition have the strategy nearest
// to `shares`, [definition] of the model, one each, which is not checked. The distance is the
// difference of states plus that of kept memory, in bytes, rounded to a hundredth of the share;
// then the least time per step; then the order of strategies. Without `per-layer`, transformer
// layers share the strategy nearest to all of them; without `end-strategies`, embedding and head
// follow their neighbours. Layers that hold a tied table share one strategy, and so do embedding
// and head if the target wants them alike. The schedule is that of the rules. Returns nothing if
// some definition has no strategy, or layers that must share one have none in common.
std::optional<Plan> NearestPlan(const PlanningProblem& problem, const CostModel& costs,
                                const std::vector<LayerShare>& shares, const BatchCut& cut);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_NEAREST_PLAN_H_
