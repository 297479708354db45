// The choice of a plan by its worst case: of the plans that are about as fast as the best one, the
// one whose predicted range ends earliest. The server and offline planning apply it to the answer
// of a search that was asked for several plans.

#ifndef PARPLAN_PLANNER_WORTH_ROBUST_PLAN_H_
#define PARPLAN_PLANNER_WORTH_ROBUST_PLAN_H_

#include "planner/model/planning_result.h"

namespace parplan {

// A plan is about as fast as the best one if its time per sample is at most this share above it.
// The number is the contract's (`PlanningOptions.wants_robust_plan`): below the difference between
// two laboratories that run one job, 2 to 6.5 % (docs/papers.md 14), so that no measurement of
// another machine decides between such plans.
inline constexpr double kRobustSlack = 0.01;

// Returns `found` with the robust plan instead of the best one. Of the plan and its
// alternatives within `kRobustSlack` of the least time per sample it is the one whose upper end of
// the range of time per sample is least, and of equal ones the first by `IsBetterPlan`. The others
// become alternatives, in the order of `IsBetterPlan`, of which the first `alternative_count` are
// kept.
//
// The bound stays, in time per sample; gap, termination and limit become those of the new plan: one
// that is above the bound is not `kOptimal`, and its limit is `kMethod` if there was none. A note
// says what was chosen among, and what it costs. A front stays as it is.
PlanFound WithRobustPlan(PlanFound found, int alternative_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_WORTH_ROBUST_PLAN_H_
