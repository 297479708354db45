// The integer programme over a strategy graph, and the questions it answers.
//
// Variables, with X binary and B within [0, 1]. (7) and (8) have a row for each edge and class
// where docs/papers.md 3.1 has the paper's sums over the edges of a node:
//
//  X[v][i]     node v takes option i
//  B[e][a][b]  the ends of edge e are in the classes a and b
//
//  (6)  sum_i X[v][i] = 1                                   every node
//  (7)  sum_a B[e][a][b] = sum of X[to][j], j in class b    every edge and class
//  (8)  sum_b B[e][a][b] = sum of X[from][i], i in class a  every edge and class
//  (9)  L[v] + transient of v <= cap                        every node, with a cap
//
// L[v], one more variable per node, is the memory that is live when the backward pass reaches the
// last copy of v: states, and what is kept of v and all nodes before it.
//
// The rows per edge make the relaxation tight: without (9) it is nearly always integral. Using
// classes instead of options in B loses nothing, because costs of an edge depend on classes only.
// Used by `MeshSearch` and `DrawGraph`.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_GRAPH_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_GRAPH_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/planners/ilp/integer_program.h"
#include "planner/planners/ilp/strategy_graph.h"

namespace parplan {

// An answer, evaluated by `EvaluateChoice` and not by the solver.
struct GraphAnswer {
  GraphChoice choice;
  GraphTotals totals;
  // Value of the objective that was minimised last, in bytes, seconds, or the unit that
  // `SolveWeighted` names.
  double objective = 0.0;
  // Proved lower bound of the objective.
  double bound = 0.0;
  // Bound of the linear relaxation. At most the optimum.
  double relaxed_bound = 0.0;
  // Whether bound = objective, up to 1e-6 relative or `SolveLimits::gap_ratio`.
  bool is_proved = false;
  int64_t node_count = 0;
};

// Solves the programme for several objectives. Deterministic unless `SolveLimits::should_stop`
// ended a solve. Not thread-safe.
class GraphSearch {
 public:
  // Keeps a reference to `graph`. `limits.max_iteration_count` is for all solves together, the
  // other limits are for each. After `max_iteration_count` or `should_stop` ended one, the later
  // ones return nothing; after `max_node_count` did, they go on.
  GraphSearch(const StrategyGraph& graph, SolveLimits limits);

  // Minimises (5), memory + alpha * time, in bytes, with alpha in bytes per second; memory is on
  // nodes as well as edges (docs/papers.md 3.1). 0 means memory alone; a large alpha means time.
  // REQUIRES, unchecked: alpha >= 0.
  //
  // This and the following solves return nothing if no choice is within the cap, or if a limit
  // ended the solve before any was found.
  std::optional<GraphAnswer> SolveWeighted(double alpha,
                                           std::optional<double> cap_bytes = std::nullopt);

  // Minimises memory, and then time among choices with at most (1 + slack) times the least memory.
  // `objective` and `bound` are those of memory. If a limit ends the second part, it answers with
  // the best choice found in it, or else that of the first.
  std::optional<GraphAnswer> SolveLexicographic(double slack = 0.0,
                                                std::optional<double> cap_bytes = std::nullopt);

  // Minimises time under a cap on the peak of live memory. With a cap it solves without it first;
  // if that choice exceeds the cap, up to ten more solves look for one to start from. Unless the
  // first choice fits, a limit other than `SolveLimits::max_node_count` that ends any of these
  // solves leaves no answer.
  std::optional<GraphAnswer> SolveLeastTime(std::optional<double> cap_bytes = std::nullopt);

  // Returns whether a limit other than `SolveLimits::max_node_count` ended some solve.
  bool stopped() const { return stopped_; }
  // Returns the steps of the simplex method that all solves took.
  int64_t iteration_count() const { return iteration_count_; }

 private:
  void AddNodes();
  void AddEdges();
  void AddLiveRows();
  std::optional<GraphAnswer> Solve(const std::vector<double>& objective, double unit,
                                   const std::vector<double>& start = {});
  // Returns a good choice within the cap, by weighting memory against time; nothing if no weight
  // gives one.
  std::optional<GraphChoice> FindWithin(double cap_bytes, const GraphAnswer& fastest);
  // Returns the values of all columns.
  std::vector<double> ValuesOf(const GraphChoice& choice) const;
  void SetCap(std::optional<double> cap_bytes);
  GraphChoice ChoiceOf(const std::vector<double>& values) const;

  const StrategyGraph& graph_;
  SolveLimits limits_;
  IntegerProgram program_;
  std::vector<int> first_column_;       // [node] of X
  std::vector<int> first_edge_column_;  // [edge] of B
  // [column] in MiB and ms, because solvers are most accurate with numbers near 1.
  std::vector<double> memory_;
  std::vector<double> time_;
  int memory_row_ = 0;
  int first_cap_row_ = 0;
  std::optional<ProgramSolver> solver_;
  bool stopped_ = false;
  int64_t iteration_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_GRAPH_SEARCH_H_
