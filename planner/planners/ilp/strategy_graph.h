// The auxiliary graph of the integer program: what every operator may choose, and what
// two neighbours' choices cost together.
//
// Shi et al., FITEE 26(1), 2025; as docs/min-memory-ilp.md reconstructs it. A node or an
// edge may stand for several equal ones (`multiplicity`): all of them choose alike.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_STRATEGY_GRAPH_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_STRATEGY_GRAPH_H_

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace parplan {

// One way to spread an operator. Bytes are of one device, seconds of one step.
struct NodeOption {
  // For people, for example `nk`: one letter an axis of the mesh.
  std::string tag;
  double state_bytes = 0.0;  // weights, gradients, optimizer
  double kept_bytes = 0.0;   // from forward to backward
  // While its backward pass runs, besides what is kept.
  double transient_bytes = 0.0;
  double seconds = 0.0;
};

struct GraphNode {
  std::string name;
  // What the node belongs to, numbered by the caller; results are summed up by it.
  int group = 0;
  // Nodes of one instance are neighbours, have one multiplicity, and are copied together:
  // the copies of an instance run one after the other.
  int instance = 0;
  int multiplicity = 1;
  std::vector<NodeOption> options;  // at least one
};

// Costs depend on a class of either end's option (the layout of the tensor between
// them), not on the options themselves.
struct GraphEdge {
  int from = 0;
  int to = 0;  // may be `from`: copies of one node in a row
  int multiplicity = 1;
  std::vector<int> from_class;  // [option of from], in [0, from_class_count)
  std::vector<int> to_class;    // [option of to]
  int from_class_count = 0;
  int to_class_count = 0;
  // [from class * to_class_count + to class]
  std::vector<double> seconds;
  std::vector<double> kept_bytes;  // of a second copy of the tensor

  int Pair(int from_option, int to_option) const {
    return from_class[from_option] * to_class_count + to_class[to_option];
  }
};

// Nodes in the order of the forward pass, instances numbered in it.
struct StrategyGraph {
  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;

  // Of the copies of `edge`, those whose tensor is there before the last copy of the
  // instance of its end begins.
  int EarlierCopies(const GraphEdge& edge) const;
};

// An option of every node.
using GraphChoice = std::vector<int>;

// What a choice takes.
struct GraphTotals {
  double state_bytes = 0.0;
  double kept_bytes = 0.0;  // copies included
  // The most that is live at once: states, what is kept so far and the transient of the
  // node whose backward pass runs, over all nodes.
  double peak_bytes = 0.0;
  double seconds = 0.0;

  // The objective of the paper.
  double memory_bytes() const { return state_bytes + kept_bytes; }
};

// By plain sums over nodes and edges. REQUIRES a valid option of every node.
GraphTotals EvaluateChoice(const StrategyGraph& graph, const GraphChoice& choice);

// States and kept bytes by `GraphNode::group`; edges belong to the group of `to`.
// `peak_bytes` is 0.
std::vector<GraphTotals> EvaluateGroups(const StrategyGraph& graph, const GraphChoice& choice);

// Leaves out options that another one of the same node, in the same classes on all edges,
// beats or equals in memory, transient memory and time; of equals the first stays. No
// optimum of any objective that grows with these is lost.
void DropDominatedOptions(StrategyGraph& graph);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_STRATEGY_GRAPH_H_
