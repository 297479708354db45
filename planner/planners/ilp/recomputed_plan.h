// Recomputation chosen after the strategies: which layers of a plan recompute so that it fits.
// `SearchColossalAutoLike` calls it, and `SearchMinMemoryIlp` for one of its first plans.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_RECOMPUTED_PLAN_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_RECOMPUTED_PLAN_H_

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// Returns `plan` with as few recomputing layers as fit into `usable` bytes on every device, by the
// upper bound of the peak (`PlanScore::peak_memory_upper`); the plan itself if it fits. For each
// level of recomputation, layers recompute in the order of extra time per byte saved, least first
// and then from the first layer on, and the least number that fits is taken; of the two levels the
// better plan is the answer. If no number is enough, all layers that may recompute do, at the level
// that needs less memory. Without `per-layer`, either all transformer layers recompute or none.
//
// Once `control` says that the search must stop, a plan that fits is enough: more layers than
// necessary may recompute, and the second level (kFull, after kSelective) is tried only if the
// first has no plan that fits.
//
// REQUIRES: one stage, and no layer recomputes, which is not checked. A layer that would keep no
// less does not recompute, unless all must. Returns nothing if the plan does not fit and no layer
// is left that may recompute. The plan that comes back need not fit. More layers are taken to need
// no more memory, which is not checked. O(log(layers)) evaluations for each level.
std::optional<Plan> RecomputedToFit(const PlanningProblem& problem, const CostModel& costs,
                                    const Plan& plan, Bytes usable, PlanEvaluator& evaluator,
                                    const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_RECOMPUTED_PLAN_H_
