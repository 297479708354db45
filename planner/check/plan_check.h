// Checks of a plan before it is used. They share no code with the search. `CheckResult` checks
// every answer with `CheckPlan`; `planctl evaluate` checks given plans with `CheckPlanStructure`.

#ifndef PARPLAN_PLANNER_CHECK_PLAN_CHECK_H_
#define PARPLAN_PLANNER_CHECK_PLAN_CHECK_H_

#include "absl/status/status.h"
#include "planner/cost/cost_model.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Checks that `plan` answers the question at all:
//   - devices and batch are those of the problem; the batch may be any that it allows
//     (`AllowsGlobalBatchSize`);
//   - stages cover ranks and layers once and in order, in runs of one definition that are as long
//     as they can be; all stages have equally many ranks, and those of each lie in one node group;
//   - degrees multiply to the ranks of their stage and divide what they split (heads, key/value
//     heads, sequence, experts, micro-batch), and fields that mean nothing have their defaults, for
//     example the rank order if a degree is 1; layers with a tied table are split alike;
//   - the micro-batch count is at least one and divides the batch, and a step has at most
//     `kMaxForwardPassCount` forward passes;
//   - devices have several stages only in a pipeline of several devices, under a schedule that
//     allows it, and in groups of micro-batches that it takes;
//   - stages without layers lie between others, in a pipeline whose runtime runs them;
//   - context and expert parallelism and recomputed modules come only with data sheets of all
//     devices and `allow_estimates`;
//   - the other rules of the problem are obeyed, except for its space and target
//     (`CheckDeclaredSpace`, result_check.h).
// Memory is not looked at.
//
// Returns INTERNAL (CHECK_FAILED) with the first fact that is broken. The metadata has the fact
// alone as `fact`, so that callers who check a user's plan can report it as the user's mistake.
absl::Status CheckPlanStructure(const PlanningProblem& problem, const Plan& plan);

// Runs `CheckPlanStructure`, whose errors it returns, then recomputes memory and time of every
// stage from the layer costs, by plain sums and a simulation of its own, without tables or short
// cuts. Returns INTERNAL (CHECK_FAILED), without the `fact`, if a number of `prediction` is off by
// more than 1e-6 relative (`idle_ratio`: absolute), if its confidence, `estimated_items` or
// `range_basis` is not that of the cost model, or if the plan does not fit: the upper bound of some
// device's memory is above the usable memory of its node group. The bottleneck is not checked. It
// shares with the search only `CostModel`: the cost of single layers, transitions and messages, the
// memory outside tensors, and the factors of ranges. O(layers + passes of all devices) time.
absl::Status CheckPlan(const PlanningProblem& problem, const Plan& plan,
                       const Prediction& prediction);
// Does the same with given costs, those of `problem`, for many plans of one problem. The function
// above makes them, and returns the errors of `CostModel::Create` too.
absl::Status CheckPlan(const PlanningProblem& problem, const CostModel& costs, const Plan& plan,
                       const Prediction& prediction);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CHECK_PLAN_CHECK_H_
