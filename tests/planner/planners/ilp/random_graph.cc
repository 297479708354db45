#include "tests/planner/planners/ilp/random_graph.h"

#include <algorithm>
#include <utility>

namespace parplan {
namespace {

int Pick(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

// Whole numbers, so that ties are frequent.
double Amount(std::mt19937& random, int high) { return Pick(random, 0, high); }

GraphEdge RandomEdge(std::mt19937& random, const StrategyGraph& graph, int from, int to,
                     int multiplicity) {
  GraphEdge edge;
  edge.from = from;
  edge.to = to;
  edge.multiplicity = multiplicity;
  edge.from_class_count = Pick(random, 1, 3);
  edge.to_class_count = Pick(random, 1, 3);
  for (size_t i = 0; i < graph.nodes[from].options.size(); ++i) {
    edge.from_class.push_back(Pick(random, 0, edge.from_class_count - 1));
  }
  for (size_t i = 0; i < graph.nodes[to].options.size(); ++i) {
    edge.to_class.push_back(Pick(random, 0, edge.to_class_count - 1));
  }
  for (int pair = 0; pair < edge.from_class_count * edge.to_class_count; ++pair) {
    edge.seconds.push_back(Amount(random, 20) * 1e-3);
    edge.kept_bytes.push_back(Amount(random, 20) * kMebibyte);
  }
  return edge;
}

}  // namespace

StrategyGraph RandomGraph(std::mt19937& random) {
  StrategyGraph graph;
  const int node_count = Pick(random, 1, 5);
  const int boundary = Pick(random, 0, node_count);
  const int multiplicities[2] = {Pick(random, 1, 3), Pick(random, 1, 3)};
  for (int v = 0; v < node_count; ++v) {
    GraphNode node;
    node.name = "node";
    // With a boundary at either end there is one instance.
    node.instance = boundary > 0 && v >= boundary ? 1 : 0;
    node.group = node.instance;
    node.multiplicity = multiplicities[node.instance];
    const int option_count = Pick(random, 1, 4);
    for (int i = 0; i < option_count; ++i) {
      node.options.push_back({.tag = "",
                              .state_bytes = Amount(random, 30) * kMebibyte,
                              .kept_bytes = Amount(random, 30) * kMebibyte,
                              .transient_bytes = Amount(random, 40) * kMebibyte,
                              .seconds = Amount(random, 30) * 1e-3});
    }
    graph.nodes.push_back(std::move(node));
  }
  for (int from = 0; from < node_count; ++from) {
    for (int to = from + 1; to < node_count; ++to) {
      if (Pick(random, 0, 2) == 0) continue;
      const bool same = graph.nodes[from].instance == graph.nodes[to].instance;
      graph.edges.push_back(
          RandomEdge(random, graph, from, to, same ? graph.nodes[to].multiplicity : 1));
    }
  }
  // From one copy to the next: the last node of an instance to its first.
  for (int v = 0; v < node_count; ++v) {
    const GraphNode& node = graph.nodes[v];
    const bool is_last = v + 1 == node_count || graph.nodes[v + 1].instance != node.instance;
    if (!is_last || node.multiplicity == 1) continue;
    int first = v;
    while (first > 0 && graph.nodes[first - 1].instance == node.instance) --first;
    graph.edges.push_back(RandomEdge(random, graph, v, first, node.multiplicity - 1));
  }
  return graph;
}

StrategyGraph Unfold(const StrategyGraph& graph, std::vector<int>& copied_from) {
  StrategyGraph unfolded;
  copied_from.clear();
  // [node][copy] in the result.
  std::vector<std::vector<int>> place(graph.nodes.size());
  int instance = 0;
  for (size_t begin = 0; begin < graph.nodes.size();) {
    size_t end = begin;
    while (end < graph.nodes.size() && graph.nodes[end].instance == graph.nodes[begin].instance) {
      ++end;
    }
    for (int copy = 0; copy < graph.nodes[begin].multiplicity; ++copy, ++instance) {
      for (size_t v = begin; v < end; ++v) {
        place[v].push_back(static_cast<int>(unfolded.nodes.size()));
        GraphNode node = graph.nodes[v];
        node.instance = instance;
        node.multiplicity = 1;
        unfolded.nodes.push_back(std::move(node));
        copied_from.push_back(static_cast<int>(v));
      }
    }
    begin = end;
  }
  const auto add = [&](const GraphEdge& edge, int from, int to) {
    GraphEdge copy = edge;
    copy.from = from;
    copy.to = to;
    copy.multiplicity = 1;
    unfolded.edges.push_back(std::move(copy));
  };
  for (const GraphEdge& edge : graph.edges) {
    const std::vector<int>& from = place[edge.from];
    const std::vector<int>& to = place[edge.to];
    if (graph.nodes[edge.from].instance != graph.nodes[edge.to].instance) {
      // The last copy to the first.
      add(edge, from.back(), to.front());
    } else if (edge.from < edge.to) {
      for (size_t copy = 0; copy < from.size(); ++copy) add(edge, from[copy], to[copy]);
    } else {
      for (size_t copy = 0; copy + 1 < from.size(); ++copy) add(edge, from[copy], to[copy + 1]);
    }
  }
  return unfolded;
}

void VisitChoices(const StrategyGraph& graph,
                  const std::function<void(const GraphChoice&)>& visit) {
  GraphChoice choice(graph.nodes.size(), 0);
  while (true) {
    visit(choice);
    size_t v = 0;
    while (v < choice.size() && ++choice[v] == static_cast<int>(graph.nodes[v].options.size())) {
      choice[v++] = 0;
    }
    if (v == choice.size()) return;
  }
}

std::optional<double> LeastByBruteForce(
    const StrategyGraph& graph,
    const std::function<std::optional<double>(const GraphTotals&)>& value) {
  std::optional<double> least;
  VisitChoices(graph, [&](const GraphChoice& choice) {
    const std::optional<double> one = value(EvaluateChoice(graph, choice));
    if (one && (!least || *one < *least)) least = one;
  });
  return least;
}

}  // namespace parplan
