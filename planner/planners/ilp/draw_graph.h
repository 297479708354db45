// The auxiliary graph of a model as a value for drawings. `IlpSearches` hands it to callers.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_DRAW_GRAPH_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_DRAW_GRAPH_H_

#include "absl/status/statusor.h"
#include "planner/cost/cost_model.h"
#include "planner/model/auxiliary_graph.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Returns the graph that `min-memory-ilp` solves, on the mesh that `question.mesh` names
// (`DeviceMesh::ToString`) or, if it is empty, on the mesh with the best choice (the first of equal
// ones), with one instance for each run of equal layers (`Folding::kAll`) and all strategies,
// dominated ones too, and its choice: the least memory and then the least time, or the least time.
// Does not ask whether anything fits. The solve of each mesh has a fixed number of steps, after
// which there may be no choice.
//
// INVALID_ARGUMENT (SPEC_INVALID) naming `mesh` if the devices have no such mesh, or `model` if a
// layer has other parts than attention and a feed-forward part.
absl::StatusOr<AuxiliaryGraph> DrawGraph(const PlanningProblem& problem, const CostModel& costs,
                                         const AuxiliaryGraphQuestion& question);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_DRAW_GRAPH_H_
