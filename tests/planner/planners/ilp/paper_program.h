// The integer program in the form of its authors: the twin of `GraphSearch` on small graphs.

#ifndef PARPLAN_TESTS_PLANNER_PLANNERS_ILP_PAPER_PROGRAM_H_
#define PARPLAN_TESTS_PLANNER_PLANNERS_ILP_PAPER_PROGRAM_H_

#include <optional>

#include "planner/planners/ilp/strategy_graph.h"

namespace parplan {

struct PaperAnswer {
  GraphChoice choice;
  // Sum of B_ij M_ij + alpha C, in bytes.
  double objective = 0.0;
  // The same of the linear relaxation.
  double relaxed_objective = 0.0;
};

// Solves (5) to (8) of Shi et al., FITEE 26(1), 2025 (docs/papers.md 3.1) to its end: X and B
// binary, a B for every pair of options of an edge, memory on edges only, and the rows (7) and (8)
// summed over the edges of a node. A node's own memory is on its first incoming edge; a node
// without one gets an edge from a source with one strategy, which counts as its in-degree.
std::optional<PaperAnswer> SolvePaperProgram(const StrategyGraph& graph, double alpha);

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_PLANNERS_ILP_PAPER_PROGRAM_H_
