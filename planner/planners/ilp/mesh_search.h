// The integer programme on every mesh of a problem's devices. The planners of ilp_planners.h use
// it.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_MESH_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_MESH_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/planners/ilp/device_mesh.h"
#include "planner/planners/ilp/graph_search.h"
#include "planner/planners/ilp/model_graph.h"
#include "planner/planners/ilp/nearest_plan.h"
#include "planner/planners/ilp/operator_times.h"

namespace parplan {

// A solution for one micro-batch size on one mesh.
struct MeshSolution {
  DeviceMesh mesh;
  BatchCut cut;
  GraphAnswer answer;
  // Even share of one device (`EvenShareBytes`): the memory of the answer beyond it is redundant.
  double even_share_bytes = 0.0;
  // [definition] the share of one of its layers; 0 for a definition without layers.
  std::vector<LayerShare> shares;
  // Texts for notes, such as `decoder: norm1 m, qkv n, ...`, one per definition; of several
  // instances, the one that stands for most layers.
  std::vector<std::string> choices;
};

// Solves the programme on all meshes. Keeps references to `problem` and `costs`. Not thread-safe.
// REQUIRES: every layer has the usual parts (`HasUsualParts`); solves abort otherwise.
class MeshSearch {
 public:
  MeshSearch(const PlanningProblem& problem, const CostModel& costs, SolveLimits limits,
             Folding folding = Folding::kMiddle);

  // Returns the meshes of the problem's devices (`MeshesOf`), valid as long as this object.
  const std::vector<DeviceMesh>& meshes() const { return meshes_; }

  // Return the solution with the least memory, and among those the one with the least time, on one
  // mesh or over all meshes. Return nothing if a limit ended the search before it had a solution.
  // If a limit (`stopped()`) ends a search over all meshes on the way, the answer is the best of
  // what was found until then; the same holds for the two functions below. Later searches of this
  // object then return nothing.
  std::optional<MeshSolution> LeastMemory(const DeviceMesh& mesh, const BatchCut& cut);
  std::optional<MeshSolution> LeastMemory(const BatchCut& cut);

  // Returns the least memory + alpha * time over all meshes, alpha in bytes per second.
  std::optional<MeshSolution> LeastWeighted(const BatchCut& cut, double alpha);

  // Returns the least time over all meshes with a peak of at most `cap_bytes`; nothing if no
  // solution has one.
  std::optional<MeshSolution> LeastTime(const BatchCut& cut, std::optional<double> cap_bytes);

  // Returns solutions on one mesh from the fastest to the smallest: without a cap, with `cap_count`
  // caps at equal distances between its peak and that of the least-memory solution, and that
  // solution. A limit leaves out solutions, or all of them.
  std::vector<MeshSolution> TimeLadder(const DeviceMesh& mesh, const BatchCut& cut, int cap_count);

  // Return whether a limit other than `SolveLimits::max_node_count` ended a solve, and the steps of
  // the simplex method that all solves took.
  bool stopped() const { return stopped_; }
  int64_t iteration_count() const { return iteration_count_; }

 private:
  // Asks `SolveLimits::should_stop`; graphs and programmes of many unlike layers take a while
  // before a solve asks it.
  bool MustStop();
  StrategyGraph GraphOf(const DeviceMesh& mesh, const BatchCut& cut) const;
  // Returns the limits less what was used.
  SolveLimits Limits() const;
  void Count(const GraphSearch& search);
  MeshSolution SolutionOf(const StrategyGraph& graph, const DeviceMesh& mesh, const BatchCut& cut,
                          GraphAnswer answer) const;

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const SolveLimits limits_;
  const Folding folding_;
  const std::vector<DeviceMesh> meshes_;
  const OperatorTimes times_;
  bool stopped_ = false;
  int64_t iteration_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_MESH_SEARCH_H_
