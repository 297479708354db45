// Shows the auxiliary graph of `min-memory-ilp` with the redundancy of each strategy: figures 1 and
// 2 of Shi et al., FITEE 26(1), 2025, for a model of one's own. `planctl ilp-graph` shows it.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_GRAPH_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_GRAPH_VIEW_H_

#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/model/auxiliary_graph.h"

namespace parplan::planctl {

// Returns the first operator of `graph` with this name, not null and valid as long as `graph`.
// NOT_FOUND (RESOURCE_NOT_FOUND) naming those there are.
absl::StatusOr<const AuxiliaryOperator*> OperatorNamed(const AuxiliaryGraph& graph,
                                                       absl::string_view name);

// Returns a table of all operators with their choice.
std::string GraphText(const AuxiliaryGraph& graph);
// Returns a table of the strategies of one operator with memory and redundancy.
std::string OperatorText(const AuxiliaryGraph& graph, const AuxiliaryOperator& op);

// Returns everything but the costs of pairs (docs/planctl.md). If `op` is not null, it is the only
// operator, and there are no edges. REQUIRES, unchecked: `op` is null or one of `graph.operators`,
// and not a copy.
nlohmann::ordered_json GraphJson(const AuxiliaryGraph& graph, const AuxiliaryOperator* op);

// Returns figure 2 as an SVG file. Panel (a) is the graph of operators and the tensors between
// them; panel (b) has a box for every strategy of an operator beside it, redder the more of it is
// redundant, lines between strategies of neighbours that need no exchange, and the choice in
// blue.
std::string GraphSvg(const AuxiliaryGraph& graph);
// Returns figure 1 as an SVG file: a bar for every strategy of an operator, an even share of its
// memory in grey and the redundant rest in red.
std::string OperatorSvg(const AuxiliaryGraph& graph, const AuxiliaryOperator& op);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_GRAPH_VIEW_H_
