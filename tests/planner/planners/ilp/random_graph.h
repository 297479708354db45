// Small strategy graphs made up at random, and the slow way to their optima.

#ifndef PARPLAN_TESTS_PLANNER_PLANNERS_ILP_RANDOM_GRAPH_H_
#define PARPLAN_TESTS_PLANNER_PLANNERS_ILP_RANDOM_GRAPH_H_

#include <functional>
#include <optional>
#include <random>

#include "planner/planners/ilp/strategy_graph.h"

namespace parplan {

// Bytes of random graphs are multiples of this.
inline constexpr double kMebibyte = 1024.0 * 1024.0;

// Up to five nodes of up to four options in one or two instances, copies among them.
StrategyGraph RandomGraph(std::mt19937& random);

// The same with every copy on its own, one instance each. Choices of the result are those
// of `graph` in the order `copied_from` says: node i is a copy of copied_from[i].
StrategyGraph Unfold(const StrategyGraph& graph, std::vector<int>& copied_from);

// Calls `visit` for every choice.
void VisitChoices(const StrategyGraph& graph, const std::function<void(const GraphChoice&)>& visit);

// The least `value` of any choice; nothing when `value` has none.
std::optional<double> LeastByBruteForce(
    const StrategyGraph& graph,
    const std::function<std::optional<double>(const GraphTotals&)>& value);

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_PLANNERS_ILP_RANDOM_GRAPH_H_
