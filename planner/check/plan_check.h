// Checks an answer before anyone acts on it. Shares no code with the search.

#ifndef PARPLAN_PLANNER_CHECK_PLAN_CHECK_H_
#define PARPLAN_PLANNER_CHECK_PLAN_CHECK_H_

#include "absl/status/status.h"
#include "planner/cost/cost_model.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Whether `plan` answers the question at all: stages cover ranks and layers
// once and in order, degrees multiply to the ranks of their stage and divide
// heads, key/value heads and micro-batch, the micro-batch count divides the
// batch, at least as many micro-batches as one, rules of the problem obeyed.
// INTERNAL (CHECK_FAILED) with the fact that is broken, by itself as `fact` of the
// error's metadata: a plan that somebody gave is their mistake and not ours.
absl::Status CheckPlanStructure(const PlanningProblem& problem, const Plan& plan);

// `CheckPlanStructure`, and recomputes memory and time of every stage from the
// layer costs by plain sums and a simulation of its own, without tables or short cuts. INTERNAL
// (CHECK_FAILED) when a promise of `prediction` is off by more than 1e-6
// relative, or the plan does not fit. With the search it shares only what layers, moves
// and messages cost one by one (`CostModel`).
absl::Status CheckPlan(const PlanningProblem& problem, const Plan& plan,
                       const Prediction& prediction);
// The same with costs that are there already, for many plans of one problem.
absl::Status CheckPlan(const PlanningProblem& problem, const CostModel& costs, const Plan& plan,
                       const Prediction& prediction);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CHECK_PLAN_CHECK_H_
