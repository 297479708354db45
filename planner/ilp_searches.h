// The planners of planner/planners/ilp, which a build may leave out (CMake option
// PARPLAN_WITH_ILP). `FindPlan` and `planctl ilp-graph` ask for them.

#ifndef PARPLAN_PLANNER_ILP_SEARCHES_H_
#define PARPLAN_PLANNER_ILP_SEARCHES_H_

#include <optional>

#include "absl/status/statusor.h"
#include "planner/cost/cost_model.h"
#include "planner/model/auxiliary_graph.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// One search per planner (ilp_planners.h says what they do); all members are null if the build has
// none. A search returns nothing if no plan exists at any memory, for the second and the third no
// plan of one stage, which `FindPlan` reports as NO_FEASIBLE_PLAN. They keep no reference to their
// arguments. REQUIRES: the costs are those of the problem, which is not checked, and every layer
// has the usual parts (`HasUsualParts`), which `FindPlan` checks; searches abort otherwise, and
// `draw_graph` returns INVALID_ARGUMENT.
struct IlpSearches {
  using Search = std::optional<PlanningResult> (*)(const PlanningProblem&, const CostModel&,
                                                   const SearchControl&);
  Search min_memory_ilp = nullptr;
  Search alpa_like = nullptr;
  Search colossal_auto_like = nullptr;
  // The graph they solve, for drawings (planner/planners/ilp/draw_graph.h). Returns
  // INVALID_ARGUMENT (SPEC_INVALID) naming `model`, as above, or `mesh` if the devices have no such
  // mesh.
  absl::StatusOr<AuxiliaryGraph> (*draw_graph)(const PlanningProblem&, const CostModel&,
                                               const AuxiliaryGraphQuestion&) = nullptr;
};

// Returns the searches of this build. Defined in ilp_searches.cc, or in no_ilp_searches.cc for
// builds without them.
IlpSearches IlpSearchesOfBuild();

}  // namespace parplan

#endif  // PARPLAN_PLANNER_ILP_SEARCHES_H_
