// The auxiliary graph of the integer programme: the options of every operator, and the costs of
// pairs of neighbouring options.
//
// Shi et al., FITEE 26(1), 2025 (docs/papers.md 3.1), as docs/min-memory-ilp.md reconstructs it. A
// node or an edge may stand for several equal ones (`multiplicity`), which all choose alike.
// `GraphOfModel` makes it and `GraphSearch` solves it.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_STRATEGY_GRAPH_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_STRATEGY_GRAPH_H_

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace parplan {

// One way to split an operator. Bytes are those of one device, seconds those of one step.
struct NodeOption {
  // Text for people, for example `nk`: one letter per axis of the mesh.
  std::string tag;
  double state_bytes = 0.0;  // weights, gradients, optimizer
  double kept_bytes = 0.0;   // from forward to backward
  // Held while the backward pass of the operator runs, in addition to kept memory.
  double transient_bytes = 0.0;
  double seconds = 0.0;
};

// An operator, or several equal ones.
struct GraphNode {
  // Name for people.
  std::string name;
  // The group of the node, numbered by the caller; results are summed up by group.
  int group = 0;
  // Nodes of one instance are consecutive, have one multiplicity, and are copied together: the
  // copies of an instance run one after the other.
  int instance = 0;
  int multiplicity = 1;
  // Bytes of states and kept tensors of one copy of the operator, each held once in all.
  double unique_bytes = 0.0;
  std::vector<NodeOption> options;  // at least one
};

// A tensor between two operators. Costs depend on a class of either end's option (the layout of the
// tensor), not on the options themselves.
struct GraphEdge {
  // Indices of the nodes whose output and whose input it is.
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

  // Returns the index into `seconds` and `kept_bytes` of a pair of options.
  int Pair(int from_option, int to_option) const {
    return from_class[from_option] * to_class_count + to_class[to_option];
  }
};

// Nodes in the order of the forward pass; instances are numbered in that order.
struct StrategyGraph {
  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;

  // Returns the number of copies of `edge` whose tensor exists before the last copy of the instance
  // of its end begins.
  int EarlierCopies(const GraphEdge& edge) const;
};

// [node] index of its option.
using GraphChoice = std::vector<int>;

// The costs of a choice.
struct GraphTotals {
  double state_bytes = 0.0;
  double kept_bytes = 0.0;  // copies included
  // The most bytes live at once: states, what is kept so far and the transient of the node whose
  // backward pass runs; the maximum over all nodes.
  double peak_bytes = 0.0;
  double seconds = 0.0;

  // Returns the memory in the objective (5') of docs/min-memory-ilp.md.
  double memory_bytes() const { return state_bytes + kept_bytes; }
};

// Returns the costs as plain sums over nodes and edges. REQUIRES, here and below, unchecked: a
// valid option of every node.
GraphTotals EvaluateChoice(const StrategyGraph& graph, const GraphChoice& choice);

// Returns states, kept bytes and seconds by `GraphNode::group`, up to the largest; edges belong to
// the group of `to`. `peak_bytes` is 0.
std::vector<GraphTotals> EvaluateGroups(const StrategyGraph& graph, const GraphChoice& choice);

// Returns the even share of one device: the unique bytes of all nodes, divided by the devices. The
// redundancy of a choice is its memory less this share (docs/min-memory-ilp.md); a second copy of a
// tensor is redundant as a whole.
double EvenShareBytes(const StrategyGraph& graph, int device_count);

// Returns the redundancy of one copy of the operator under an option, in bytes a device: the memory
// it holds beyond an even share. At least 0, up to rounding.
double RedundantBytes(const GraphNode& node, const NodeOption& option, int device_count);

// Removes dominated options: those for which another option of the same node, in the same classes
// on all edges, is at least as good in memory, transient memory and time; of equal ones the first
// remains. No optimum of an objective that grows with these is lost.
void DropDominatedOptions(StrategyGraph& graph);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_STRATEGY_GRAPH_H_
