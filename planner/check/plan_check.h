// Checks of a plan before it is used. They share no code with the search. `CheckResult` checks
// every answer with `CheckPlan`; `planctl evaluate` checks given plans with `CheckPlanStructure`.

#ifndef PARPLAN_PLANNER_CHECK_PLAN_CHECK_H_
#define PARPLAN_PLANNER_CHECK_PLAN_CHECK_H_

#include "absl/status/status.h"
#include "planner/cost/cost_model.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Checks that `plan` answers the question at all: stages cover ranks and layers once and in order;
// all stages have equally many ranks, of one node group; degrees multiply to the ranks of their
// stage and divide what they split (heads, key/value heads, sequence, experts, micro-batch); layers
// with a tied table are split alike; the micro-batch count is at least one and divides the batch;
// devices have several stages only in a pipeline of several devices; stages without layers lie
// between others, in a pipeline whose runtime runs them; the rules of the problem are obeyed.
// Memory is not looked at.
//
// Returns INTERNAL (CHECK_FAILED) with the fact that is broken. The metadata has the fact alone as
// `fact`, so that callers who check a user's plan can report it as the user's mistake.
absl::Status CheckPlanStructure(const PlanningProblem& problem, const Plan& plan);

// Runs `CheckPlanStructure`, then recomputes memory and time of every stage from the layer costs,
// by plain sums and a simulation of its own, without tables or short cuts. Returns INTERNAL
// (CHECK_FAILED), without the `fact`, if a number of `prediction` is off by more than 1e-6 relative
// (`idle_ratio`: absolute), or the plan does not fit. Its bottleneck is not checked. It shares with
// the search only the cost of single layers, transitions and messages (`CostModel`).
absl::Status CheckPlan(const PlanningProblem& problem, const Plan& plan,
                       const Prediction& prediction);
// Does the same with given costs, those of `problem`, for many plans of one problem. The function
// above makes them, and returns the errors of `CostModel::Create` too.
absl::Status CheckPlan(const PlanningProblem& problem, const CostModel& costs, const Plan& plan,
                       const Prediction& prediction);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CHECK_PLAN_CHECK_H_
