#include "planner/planners/ilp/strategy_graph.h"

#include <algorithm>
#include <map>
#include <utility>

namespace parplan {

int StrategyGraph::EarlierCopies(const GraphEdge& edge) const {
  const GraphNode& end = nodes[edge.to];
  // A tensor from another instance enters the first copy.
  if (nodes[edge.from].instance != end.instance && end.multiplicity > 1) return edge.multiplicity;
  return edge.multiplicity - 1;
}

// Kept memory grows along the forward pass, so among equal nodes the backward pass of the last copy
// has the most memory live.
GraphTotals EvaluateChoice(const StrategyGraph& graph, const GraphChoice& choice) {
  GraphTotals totals;
  // [instance] kept memory of its earlier copies.
  std::vector<double> earlier;
  // [node] memory its last copy adds.
  std::vector<double> last(graph.nodes.size());
  for (size_t v = 0; v < graph.nodes.size(); ++v) {
    const GraphNode& node = graph.nodes[v];
    const NodeOption& option = node.options[choice[v]];
    totals.state_bytes += node.multiplicity * option.state_bytes;
    totals.kept_bytes += node.multiplicity * option.kept_bytes;
    totals.seconds += node.multiplicity * option.seconds;
    earlier.resize(node.instance + 1);
    earlier[node.instance] += (node.multiplicity - 1) * option.kept_bytes;
    last[v] = option.kept_bytes;
  }
  for (const GraphEdge& edge : graph.edges) {
    const int pair = edge.Pair(choice[edge.from], choice[edge.to]);
    const int before = graph.EarlierCopies(edge);
    totals.kept_bytes += edge.multiplicity * edge.kept_bytes[pair];
    totals.seconds += edge.multiplicity * edge.seconds[pair];
    earlier[graph.nodes[edge.to].instance] += before * edge.kept_bytes[pair];
    last[edge.to] += (edge.multiplicity - before) * edge.kept_bytes[pair];
  }
  double live = totals.state_bytes;
  int instance = -1;
  for (size_t v = 0; v < graph.nodes.size(); ++v) {
    const GraphNode& node = graph.nodes[v];
    if (node.instance != instance) {
      instance = node.instance;
      live += earlier[instance];
    }
    live += last[v];
    totals.peak_bytes = std::max(totals.peak_bytes, live + node.options[choice[v]].transient_bytes);
  }
  return totals;
}

std::vector<GraphTotals> EvaluateGroups(const StrategyGraph& graph, const GraphChoice& choice) {
  std::vector<GraphTotals> groups;
  const auto group_of = [&](int v) -> GraphTotals& {
    const size_t group = static_cast<size_t>(graph.nodes[v].group);
    if (groups.size() <= group) groups.resize(group + 1);
    return groups[group];
  };
  for (size_t v = 0; v < graph.nodes.size(); ++v) {
    const GraphNode& node = graph.nodes[v];
    const NodeOption& option = node.options[choice[v]];
    GraphTotals& totals = group_of(static_cast<int>(v));
    totals.state_bytes += node.multiplicity * option.state_bytes;
    totals.kept_bytes += node.multiplicity * option.kept_bytes;
    totals.seconds += node.multiplicity * option.seconds;
  }
  for (const GraphEdge& edge : graph.edges) {
    const int pair = edge.Pair(choice[edge.from], choice[edge.to]);
    GraphTotals& totals = group_of(edge.to);
    totals.kept_bytes += edge.multiplicity * edge.kept_bytes[pair];
    totals.seconds += edge.multiplicity * edge.seconds[pair];
  }
  return groups;
}

double EvenShareBytes(const StrategyGraph& graph, int device_count) {
  double unique = 0.0;
  for (const GraphNode& node : graph.nodes) unique += node.multiplicity * node.unique_bytes;
  return unique / device_count;
}

double RedundantBytes(const GraphNode& node, const NodeOption& option, int device_count) {
  return option.state_bytes + option.kept_bytes - node.unique_bytes / device_count;
}

namespace {

bool NoWorse(const NodeOption& a, const NodeOption& b) {
  return a.state_bytes <= b.state_bytes && a.kept_bytes <= b.kept_bytes &&
         a.transient_bytes <= b.transient_bytes && a.seconds <= b.seconds;
}

template <typename T>
std::vector<T> Select(const std::vector<T>& values, const std::vector<int>& indices) {
  std::vector<T> selected;
  for (const int index : indices) selected.push_back(values[index]);
  return selected;
}

}  // namespace

void DropDominatedOptions(StrategyGraph& graph) {
  // [node] the edges that begin or end there, in order. Thousands of unlike layers have too many
  // edges to look at all of them for each option.
  std::vector<std::vector<int>> edges_of(graph.nodes.size());
  for (size_t e = 0; e < graph.edges.size(); ++e) {
    const GraphEdge& edge = graph.edges[e];
    edges_of[edge.from].push_back(static_cast<int>(e));
    if (edge.to != edge.from) edges_of[edge.to].push_back(static_cast<int>(e));
  }
  for (size_t v = 0; v < graph.nodes.size(); ++v) {
    std::vector<NodeOption>& options = graph.nodes[v].options;
    // Groups options by their classes on all edges.
    std::map<std::vector<int>, std::vector<int>> alike;
    for (size_t i = 0; i < options.size(); ++i) {
      std::vector<int> classes;
      for (const int e : edges_of[v]) {
        const GraphEdge& edge = graph.edges[e];
        if (edge.from == static_cast<int>(v)) classes.push_back(edge.from_class[i]);
        if (edge.to == static_cast<int>(v)) classes.push_back(edge.to_class[i]);
      }
      std::vector<int>& rivals = alike[std::move(classes)];
      const NodeOption& option = options[i];
      if (std::any_of(rivals.begin(), rivals.end(),
                      [&](int rival) { return NoWorse(options[rival], option); })) {
        continue;
      }
      rivals.erase(std::remove_if(rivals.begin(), rivals.end(),
                                  [&](int rival) { return NoWorse(option, options[rival]); }),
                   rivals.end());
      rivals.push_back(static_cast<int>(i));
    }
    std::vector<int> left;
    for (const auto& [classes, rivals] : alike) {
      left.insert(left.end(), rivals.begin(), rivals.end());
    }
    std::sort(left.begin(), left.end());
    options = Select(options, left);
    for (const int e : edges_of[v]) {
      GraphEdge& edge = graph.edges[e];
      if (edge.from == static_cast<int>(v)) edge.from_class = Select(edge.from_class, left);
      if (edge.to == static_cast<int>(v)) edge.to_class = Select(edge.to_class, left);
    }
  }
}

}  // namespace parplan
