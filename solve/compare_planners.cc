#include "solve/compare_planners.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "base/status_macros.h"
#include "planner/find_plan.h"
#include "proto/wire/comparison_wire.h"
#include "solve/run_search.h"

namespace parplan {

absl::StatusOr<v1::PlannerComparison> ComparePlanner(const PlanningProblem& problem,
                                                     const std::string& planner,
                                                     const SearchFunction& search) {
  const absl::StatusOr<PlanningResult> result =
      search(problem.WithRules(RulesForOnePlan(problem.rules(), planner)), planner);
  if (result.ok()) return ComparisonToProto(planner, *result);
  if (!HasNoCandidates(result.status())) return result.status();
  v1::PlannerComparison row;
  row.set_planner(planner);
  return row;
}

absl::StatusOr<std::vector<v1::PlannerComparison>> CompareWithBaselines(
    const PlanningProblem& problem, const std::string& planner, const PlanningResult& result,
    const SearchFunction& search) {
  std::vector<v1::PlannerComparison> rows;
  for (const std::string& name : PlannerNames()) {
    if (name == planner) {
      rows.push_back(ComparisonToProto(name, result));
    } else if (absl::c_linear_search(BaselineNames(), name)) {
      PARPLAN_ASSIGN_OR_RETURN(v1::PlannerComparison row, ComparePlanner(problem, name, search));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace parplan
