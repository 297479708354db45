// Compares planners on one question, each asked for a single plan. The server and `planctl plan
// --offline` call it if a question asks to compare baselines, and `planctl compare --offline`
// compares all planners with it. The searches run on the calling thread.

#ifndef PARPLAN_SOLVE_COMPARE_PLANNERS_H_
#define PARPLAN_SOLVE_COMPARE_PLANNERS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// Runs the planner of that name on a problem, under the caller's limits: `RunSearch`.
using SearchFunction = std::function<absl::StatusOr<PlanningResult>(const PlanningProblem& problem,
                                                                    const std::string& planner)>;

// Returns the row of `planner`, searching for one plan even if the rules of `problem` ask for
// several or for a memory front. Rules that only other planners take (the ILP's alpha, a
// partitioner, granules) are back at their defaults (`RulesForOnePlan`, planner/find_plan.h), so
// that they refuse nothing. "Nothing fits" and a search that a limit ended are rows as well
// (`ComparisonToProto`, proto/wire/comparison_wire.h); a planner that has no plan of its kind,
// whatever the memory (`HasNoCandidates`), gives a row with its name alone. Other errors of
// `search` are returned.
absl::StatusOr<v1::PlannerComparison> ComparePlanner(const PlanningProblem& problem,
                                                     const std::string& planner,
                                                     const SearchFunction& search);

// Returns a row for `planner`, whose `result` is known, and one for every other baseline, searched
// one after the other; in the order of `PlannerNames()`. A `planner` that is not among these has no
// row. Returns the first error that `ComparePlanner` returns; later planners are not searched then.
absl::StatusOr<std::vector<v1::PlannerComparison>> CompareWithBaselines(
    const PlanningProblem& problem, const std::string& planner, const PlanningResult& result,
    const SearchFunction& search);

}  // namespace parplan

#endif  // PARPLAN_SOLVE_COMPARE_PLANNERS_H_
