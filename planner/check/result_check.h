// Checks of a planner's whole answer. They share no code with the search. `RunSearch`
// (solve/run_search.h) calls `CheckResultInTime` before anyone sees the answer.

#ifndef PARPLAN_PLANNER_CHECK_RESULT_CHECK_H_
#define PARPLAN_PLANNER_CHECK_RESULT_CHECK_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// Checks that a valid plan lies in the space of the problem's dimensions and target
// (docs/search.md). `CheckPlanStructure` does not, since a plan given by a user may lie outside: no
// space has stages without layers, for example. Returns INTERNAL (CHECK_FAILED) with what is
// outside, a layer or something of the whole plan, also as `fact` of the metadata. REQUIRES,
// unchecked: `CheckPlanStructure` (plan_check.h) returns OK for the plan. O(layers^2) time without
// `per-layer`.
absl::Status CheckDeclaredSpace(const PlanningProblem& problem, const Plan& plan);

// Checks that a summary is consistent with itself and with the step of the plan found: no count is
// negative, the bound is finite, at least 0 and not above the step, `gap_ratio` is the gap between
// them, the limit is `kNone` if and only if the termination is `kOptimal`, and the gap is then 0. A
// relative difference of 1e-9 passes as rounding. Returns INTERNAL (CHECK_FAILED) with the `fact`
// otherwise.
absl::Status CheckSearchSummary(const SearchSummary& search, Seconds step);

// Checks an answer. Returns INTERNAL (CHECK_FAILED) with the first fact that is broken, which is
// also `fact` of the metadata unless `CheckPlan` leaves it out, or an error of `CostModel::Create`,
// which a planner with an answer has not met. Of summaries, all answers have what
// `CheckSearchSummary` asks for without a step.
//
//   plan found     `CheckPlan`, `CheckDeclaredSpace` and `CheckSearchSummary`. Alternatives and
//                  front pass the first two. There are fewer alternatives than `top_plan_count`,
//                  distinct from each other and from the plan; behind the plan they come in the
//                  order of memory + alpha * step if the rules have an alpha, else in that of
//                  `IsBetterPlan` or in that of `peak_memory_upper`. A front is there only if the
//                  rules want one; it may be empty. It begins with the plan, and each further point
//                  takes as much time per sample or more, and less `peak_memory_upper`.
//   nothing fits   More memory is needed than there is; the size of the device follows from it; the
//                  plan that needs it, if there is one, fits in it, and in no less if that is said
//                  to be proved (to 1 MiB); a number of devices is one of whole nodes, other than
//                  the present, and at most `kMaxNodesTried` nodes above it.
//   stopped empty  A limit is named.
//
// It does not check that no other plan needs less memory or fewer devices, which takes a search.
absl::Status CheckResult(const PlanningProblem& problem, const PlanningResult& result);

// Checks an answer as `CheckResult` does, for a search whose time is limited: each alternative and
// each point of the front takes as long to check as the plan. Asks `should_stop` before each of
// them, in turn the next alternative and the next point, best first. Once it returns true, those
// that were not checked are taken out of `result`, and a note says how many. The plan itself is
// always checked. Returns the number of plans taken out.
absl::StatusOr<int> CheckResultInTime(const PlanningProblem& problem,
                                      const std::function<bool()>& should_stop,
                                      PlanningResult& result);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CHECK_RESULT_CHECK_H_
