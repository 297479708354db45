// The integer program over a strategy graph, and the questions it answers.
//
// Variables, with X binary and B within [0, 1] (papers of docs/min-memory-ilp.md):
//
//   X[v][i]     node v takes option i
//   B[e][a][b]  the ends of edge e are in the classes a and b
//
//   (6)  sum_i X[v][i] = 1                                   every node
//   (7)  sum_a B[e][a][b] = sum of X[to][j], j in class b    every edge and class
//   (8)  sum_b B[e][a][b] = sum of X[from][i], i in class a  every edge and class
//   (9)  L[v] + transient of v <= cap                        every node, with a cap
//
// where L[v], one more variable a node, is what is live when the backward pass reaches the
// last copy of v: states, and what is kept of v and all before it.
//
// The rows per edge are what makes the relaxation tight: without (9) it is nearly always
// integral. Classes instead of options in B lose nothing, since costs of an edge depend
// on classes only.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_GRAPH_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_GRAPH_SEARCH_H_

#include <cstdint>
#include <optional>

#include "planner/planners/ilp/integer_program.h"
#include "planner/planners/ilp/strategy_graph.h"

namespace parplan {

// An answer, evaluated by `EvaluateChoice` and not by the solver.
struct GraphAnswer {
  GraphChoice choice;
  GraphTotals totals;
  // Of the objective that was minimised last; the unit is bytes, seconds, or what
  // `SolveWeighted` says.
  double objective = 0.0;
  // Proved: no choice is less.
  double bound = 0.0;
  // Of the relaxation. At most the optimum.
  double relaxed_bound = 0.0;
  // bound = objective, up to 1e-6 relative or `SolveLimits::gap_ratio`.
  bool is_proved = false;
  int64_t node_count = 0;
};

// Not to be used by two threads at once. Deterministic.
class GraphSearch {
 public:
  // Keeps a reference to `graph`. `limits` hold for all solves together.
  GraphSearch(const StrategyGraph& graph, SolveLimits limits);

  // The objective of the paper, (5): memory + alpha * time, in bytes, with alpha in bytes a
  // second. 0 is memory alone; a large one is time.
  //
  // All of them: nothing when no choice is within the cap, or when a limit ended the solve
  // before any was found (`stopped`).
  std::optional<GraphAnswer> SolveWeighted(double alpha,
                                           std::optional<double> cap_bytes = std::nullopt);

  // The least memory, and among choices with at most (1 + slack) times as much the least
  // time. `objective` and `bound` are the memory's.
  std::optional<GraphAnswer> SolveLexicographic(double slack = 0.0,
                                                std::optional<double> cap_bytes = std::nullopt);

  // The least time, under a cap on the peak of what is live.
  std::optional<GraphAnswer> SolveLeastTime(std::optional<double> cap_bytes = std::nullopt);

  // A limit ended some solve.
  bool stopped() const { return stopped_; }
  int64_t iteration_count() const { return iteration_count_; }

 private:
  void AddNodes();
  void AddEdges();
  void AddLiveRows();
  std::optional<GraphAnswer> Solve(const std::vector<double>& objective, double unit,
                                   const std::vector<double>& start = {});
  // A good choice within the cap, by weighting memory against time; nothing when no weight
  // gives one.
  std::optional<GraphChoice> FindWithin(double cap_bytes, const GraphAnswer& fastest);
  // Of all columns.
  std::vector<double> ValuesOf(const GraphChoice& choice) const;
  void SetCap(std::optional<double> cap_bytes);
  GraphChoice ChoiceOf(const std::vector<double>& values) const;

  const StrategyGraph& graph_;
  SolveLimits limits_;
  IntegerProgram program_;
  std::vector<int> first_column_;       // [node] of X
  std::vector<int> first_edge_column_;  // [edge] of B
  // By column, in MiB and ms: numbers near 1 are what solvers like.
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
