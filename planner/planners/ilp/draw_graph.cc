#include "planner/planners/ilp/draw_graph.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "planner/planners/ilp/device_mesh.h"
#include "planner/planners/ilp/graph_search.h"
#include "planner/planners/ilp/model_graph.h"
#include "planner/planners/ilp/operator_times.h"

namespace parplan {
namespace {

// Steps of the simplex method on each mesh: models of a few kinds of layers take hundreds, 40
// unlike layers several times this many.
constexpr int64_t kMaxDrawnSteps = 20'000;

AuxiliaryGraph Draw(const StrategyGraph& graph, const DeviceMesh& mesh) {
  AuxiliaryGraph drawn{.mesh = mesh.ToString(),
                       .device_count = mesh.device_count(),
                       .even_share_bytes = EvenShareBytes(graph, mesh.device_count())};
  for (const GraphNode& node : graph.nodes) {
    AuxiliaryOperator& op = drawn.operators.emplace_back();
    op.name = node.name;
    op.multiplicity = node.multiplicity;
    op.unique_bytes = node.unique_bytes;
    for (const NodeOption& option : node.options) {
      op.strategies.push_back({.tag = option.tag,
                               .state_bytes = option.state_bytes,
                               .kept_bytes = option.kept_bytes,
                               .redundant_bytes = RedundantBytes(node, option, mesh.device_count()),
                               .seconds = option.seconds});
    }
  }
  for (const GraphEdge& edge : graph.edges) {
    AuxiliaryEdge& line = drawn.edges.emplace_back();
    line.from = edge.from;
    line.to = edge.to;
    line.multiplicity = edge.multiplicity;
    for (size_t i = 0; i < edge.from_class.size(); ++i) {
      line.seconds.emplace_back();
      line.copy_bytes.emplace_back();
      for (size_t j = 0; j < edge.to_class.size(); ++j) {
        const int pair = edge.Pair(static_cast<int>(i), static_cast<int>(j));
        line.seconds.back().push_back(edge.seconds[pair]);
        line.copy_bytes.back().push_back(edge.kept_bytes[pair]);
      }
    }
  }
  return drawn;
}

}  // namespace

absl::StatusOr<AuxiliaryGraph> DrawGraph(const PlanningProblem& problem, const CostModel& costs,
                                         const AuxiliaryGraphQuestion& question) {
  for (const LayerDefinition& layer : problem.model().layer_definitions()) {
    if (HasUsualParts(layer)) continue;
    return FieldError(Reason::kSpecInvalid, "model",
                      absl::StrCat("operators of layer `", layer.layer_definition_id,
                                   "` are not known: it has more than attention and a "
                                   "feed-forward part"));
  }
  const std::vector<DeviceMesh> meshes = MeshesOf(problem.device_count());
  const OperatorTimes times(problem, meshes);
  std::vector<std::string> names;
  AuxiliaryGraph best;
  bool has_choice = false;
  double least = 0.0;
  for (const DeviceMesh& mesh : meshes) {
    names.push_back(mesh.ToString());
    if (!question.mesh.empty() && question.mesh != names.back()) continue;
    const StrategyGraph graph = GraphOfModel(problem.model(), costs, times,
                                             {.mesh = mesh,
                                              .micro_batch_size = question.micro_batch_size,
                                              .micro_batch_count = question.micro_batch_count,
                                              .folding = Folding::kAll});
    GraphSearch search(graph, {.max_iteration_count = kMaxDrawnSteps});
    const std::optional<GraphAnswer> answer =
        question.wants_least_time ? search.SolveLeastTime() : search.SolveLexicographic();
    // Relative difference up to which two meshes count as equal, so that the first one is drawn.
    constexpr double kTie = 1e-6;
    const bool is_better = best.operators.empty() ||
                           (answer && (!has_choice || answer->objective < least * (1.0 - kTie)));
    if (!is_better) continue;
    best = Draw(graph, mesh);
    has_choice = answer.has_value();
    if (!answer) continue;
    least = answer->objective;
    best.memory_bytes = answer->totals.memory_bytes();
    best.state_bytes = answer->totals.state_bytes;
    best.seconds = answer->totals.seconds;
    best.is_proved = answer->is_proved;
    for (size_t v = 0; v < answer->choice.size(); ++v) {
      best.operators[v].chosen = answer->choice[v];
    }
  }
  if (best.operators.empty()) {
    return FieldError(Reason::kSpecInvalid, "mesh",
                      absl::StrCat("`", question.mesh, "` is no mesh of ", problem.device_count(),
                                   " device(s); use one of ", absl::StrJoin(names, ", ")));
  }
  best.micro_batch_size = question.micro_batch_size;
  best.micro_batch_count = question.micro_batch_count;
  return best;
}

}  // namespace parplan
