// Checks of a planner's whole answer. They share no code with the search. `RunSearch`
// (solve/run_search.h) calls `CheckResult` before anyone sees the answer.

#ifndef PARPLAN_PLANNER_CHECK_RESULT_CHECK_H_
#define PARPLAN_PLANNER_CHECK_RESULT_CHECK_H_

#include "absl/status/status.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// Checks that a valid plan lies in the space of the problem's dimensions and target
// (docs/search.md). `CheckPlanStructure` does not, since a plan given by a user may lie outside: no
// space has stages without layers, for example. Returns INTERNAL (CHECK_FAILED) with what is
// outside, a layer or something of the whole plan, also as `fact` of the metadata.
absl::Status CheckDeclaredSpace(const PlanningProblem& problem, const Plan& plan);

// Checks that a summary is consistent with itself and with the step of the plan found: no count is
// negative, the bound is finite, at least 0 and not above the step, the gap is the one between
// them, and `kOptimal` means that the bound is met and, as nothing else does, that the limit is
// `kNone`. Returns INTERNAL (CHECK_FAILED) otherwise.
absl::Status CheckSearchSummary(const SearchSummary& search, Seconds step);

// Checks an answer. Returns INTERNAL (CHECK_FAILED) with the first fact that is broken, or an error
// of `CostModel::Create`, which a planner with an answer has not met.
//
//   plan found     `CheckPlan`, `CheckDeclaredSpace` and `CheckSearchSummary`. Alternatives and
//                  front pass the first two, are distinct, in order (of time per sample, of memory
//                  if the planner minimises that, or of both by the rules' alpha), and no more
//                  than the rules allow.
//   nothing fits   More memory is needed than there is; the size of the device follows from it; the
//                  plan that needs it, if there is one, fits in it, and in no less if that is said
//                  to be proved; a number of devices is one of whole nodes, other than the present.
//   stopped empty  No count is negative and a limit is named.
//
// It does not check that no other plan needs less memory or fewer devices, which takes a search.
absl::Status CheckResult(const PlanningProblem& problem, const PlanningResult& result);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CHECK_RESULT_CHECK_H_
