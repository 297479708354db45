// The integer program on every mesh of a problem's devices.

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
  // Of one layer, by definition.
  std::vector<LayerShare> shares;
  // `decoder: norm1 m, qkv n, ...`, one line a definition; of instances the one that
  // stands for most layers.
  std::vector<std::string> choices;
};

// Not to be used by two threads at once. Keeps references to its arguments.
class MeshSearch {
 public:
  MeshSearch(const PlanningProblem& problem, const CostModel& costs, SolveLimits limits,
             Folding folding = Folding::kMiddle);

  const std::vector<DeviceMesh>& meshes() const { return meshes_; }

  // On one mesh, or over all of them: the least memory, and with that the least time.
  // Nothing when a limit ended it first.
  std::optional<MeshSolution> LeastMemory(const DeviceMesh& mesh, const BatchCut& cut);
  std::optional<MeshSolution> LeastMemory(const BatchCut& cut);

  // Over all meshes the least memory + alpha * time, alpha in bytes a second.
  std::optional<MeshSolution> LeastWeighted(const BatchCut& cut, double alpha);

  // Over all meshes the least time with a peak of at most `cap_bytes`. Nothing when none
  // has one.
  std::optional<MeshSolution> LeastTime(const BatchCut& cut, std::optional<double> cap_bytes);

  // On one mesh, from the fastest to the smallest: without a cap, with `cap_count` caps at
  // equal distances between its peak and the least-memory solution's, and that solution.
  std::vector<MeshSolution> TimeLadder(const DeviceMesh& mesh, const BatchCut& cut, int cap_count);

  bool stopped() const { return stopped_; }
  int64_t iteration_count() const { return iteration_count_; }

 private:
  StrategyGraph GraphOf(const DeviceMesh& mesh, const BatchCut& cut) const;
  // The limits that are left.
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
