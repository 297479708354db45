// Checks everything a planner answers, not only its plan. Shares no code with the search.

#ifndef PARPLAN_PLANNER_CHECK_RESULT_CHECK_H_
#define PARPLAN_PLANNER_CHECK_RESULT_CHECK_H_

#include "absl/status/status.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// Whether a valid plan is one that dimensions and target of the problem allow
// (docs/search.md). `CheckPlanStructure` does not ask this: a plan that somebody gave may
// do what no search was asked to. INTERNAL (CHECK_FAILED) with the layer and the dimension.
absl::Status CheckDeclaredSpace(const PlanningProblem& problem, const Plan& plan);

// Whether a summary agrees with itself and, of a plan found, with its step: the bound is
// not above the step, the gap is the one between them, and `kOptimal` stands for a bound
// that is met and no limit.
absl::Status CheckSearchSummary(const SearchSummary& search, Seconds step);

// `CheckPlan`, `CheckDeclaredSpace` and `CheckSearchSummary` of a plan found; the first two
// of its alternatives and its front, and that these are in order (of time a sample, of memory
// where that is what the planner asks for, or of both by the rules' alpha), distinct and as
// many as the rules allow. Of "nothing fits", that more memory is needed than there is, that
// the size of the device follows from it, that the plan which needs it, where there is one,
// fits in it and in no less where that is said to be proved, and that more devices are whole
// nodes. Not that no other plan needs less, nor fewer devices: that takes a search. INTERNAL
// (CHECK_FAILED) with the fact that is broken.
absl::Status CheckResult(const PlanningProblem& problem, const PlanningResult& result);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CHECK_RESULT_CHECK_H_
