#include "planner/planners/ilp/mesh_search.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

// Relative difference up to which numbers of two solves are equal.
constexpr double kTie = 1e-6;

// Returns whether `a` takes less memory, or as much memory and less time.
bool TakesLess(const GraphTotals& a, const GraphTotals& b) {
  if (a.memory_bytes() < b.memory_bytes() * (1.0 - kTie)) return true;
  if (a.memory_bytes() > b.memory_bytes() * (1.0 + kTie)) return false;
  return a.seconds < b.seconds * (1.0 - kTie);
}

}  // namespace

MeshSearch::MeshSearch(const PlanningProblem& problem, const CostModel& costs, SolveLimits limits,
                       Folding folding)
    : problem_(problem),
      costs_(costs),
      limits_(std::move(limits)),
      folding_(folding),
      meshes_(MeshesOf(problem.device_count())),
      times_(problem, meshes_) {}

StrategyGraph MeshSearch::GraphOf(const DeviceMesh& mesh, const BatchCut& cut) const {
  StrategyGraph graph = GraphOfModel(problem_.model(), costs_, times_,
                                     {.mesh = mesh,
                                      .micro_batch_size = cut.micro_batch_size,
                                      .micro_batch_count = cut.micro_batch_count,
                                      .folding = folding_});
  DropDominatedOptions(graph);
  return graph;
}

bool MeshSearch::MustStop() {
  stopped_ |= limits_.should_stop && limits_.should_stop();
  return stopped_;
}

SolveLimits MeshSearch::Limits() const {
  SolveLimits limits = limits_;
  if (limits.max_iteration_count > 0) {
    limits.max_iteration_count =
        std::max<int64_t>(1, limits.max_iteration_count - iteration_count_);
  }
  return limits;
}

void MeshSearch::Count(const GraphSearch& search) {
  iteration_count_ += search.iteration_count();
  stopped_ |= search.stopped();
  stopped_ |= limits_.max_iteration_count > 0 && iteration_count_ >= limits_.max_iteration_count;
}

MeshSolution MeshSearch::SolutionOf(const StrategyGraph& graph, const DeviceMesh& mesh,
                                    const BatchCut& cut, GraphAnswer answer) const {
  MeshSolution solution{.mesh = mesh,
                        .cut = cut,
                        .answer = {},
                        .even_share_bytes = EvenShareBytes(graph, mesh.device_count()),
                        .shares = {},
                        .choices = {}};
  const ModelSpec& model = problem_.model();
  std::vector<int> layer_count(model.layer_definitions().size());
  for (const int index : model.definition_of_layer()) ++layer_count[index];
  const std::vector<GraphTotals> groups = EvaluateGroups(graph, answer.choice);
  for (size_t index = 0; index < layer_count.size(); ++index) {
    LayerShare share;
    if (index < groups.size() && layer_count[index] > 0) {
      share.state_bytes = groups[index].state_bytes / layer_count[index];
      share.kept_bytes = groups[index].kept_bytes / layer_count[index];
    }
    solution.shares.push_back(share);

    // Finds the instance that represents most layers.
    int largest = 0;
    int instance = -1;
    for (const GraphNode& node : graph.nodes) {
      if (node.group != static_cast<int>(index) || node.multiplicity <= largest) continue;
      largest = node.multiplicity;
      instance = node.instance;
    }
    const std::string id = model.layer_definitions()[index].layer_definition_id;
    std::string line = id;
    const char* separator = ": ";
    for (size_t v = 0; v < graph.nodes.size(); ++v) {
      if (graph.nodes[v].instance != instance) continue;
      absl::StrAppend(&line, separator, absl::StripPrefix(graph.nodes[v].name, id + "."), " ",
                      graph.nodes[v].options[answer.choice[v]].tag);
      separator = ", ";
    }
    if (instance >= 0) solution.choices.push_back(std::move(line));
  }
  solution.answer = std::move(answer);
  return solution;
}

std::optional<MeshSolution> MeshSearch::LeastMemory(const DeviceMesh& mesh, const BatchCut& cut) {
  if (MustStop()) return std::nullopt;
  const StrategyGraph graph = GraphOf(mesh, cut);
  if (MustStop()) return std::nullopt;
  GraphSearch search(graph, Limits());
  std::optional<GraphAnswer> answer = search.SolveLexicographic();
  Count(search);
  if (!answer) return std::nullopt;
  return SolutionOf(graph, mesh, cut, *std::move(answer));
}

std::optional<MeshSolution> MeshSearch::LeastMemory(const BatchCut& cut) {
  std::optional<MeshSolution> best;
  for (const DeviceMesh& mesh : meshes_) {
    std::optional<MeshSolution> solution = LeastMemory(mesh, cut);
    if (solution && (!best || TakesLess(solution->answer.totals, best->answer.totals))) {
      best = std::move(solution);
    }
  }
  return best;
}

std::optional<MeshSolution> MeshSearch::LeastWeighted(const BatchCut& cut, double alpha) {
  std::optional<MeshSolution> best;
  for (const DeviceMesh& mesh : meshes_) {
    if (MustStop()) break;
    const StrategyGraph graph = GraphOf(mesh, cut);
    if (MustStop()) break;
    GraphSearch search(graph, Limits());
    std::optional<GraphAnswer> answer = search.SolveWeighted(alpha);
    Count(search);
    if (answer && (!best || answer->objective < best->answer.objective * (1.0 - kTie))) {
      best = SolutionOf(graph, mesh, cut, *std::move(answer));
    }
  }
  return best;
}

std::optional<MeshSolution> MeshSearch::LeastTime(const BatchCut& cut,
                                                  std::optional<double> cap_bytes) {
  std::optional<MeshSolution> best;
  for (const DeviceMesh& mesh : meshes_) {
    if (MustStop()) break;
    const StrategyGraph graph = GraphOf(mesh, cut);
    if (MustStop()) break;
    GraphSearch search(graph, Limits());
    std::optional<GraphAnswer> answer = search.SolveLeastTime(cap_bytes);
    Count(search);
    if (answer && (!best || answer->objective < best->answer.objective * (1.0 - kTie))) {
      best = SolutionOf(graph, mesh, cut, *std::move(answer));
    }
  }
  return best;
}

std::vector<MeshSolution> MeshSearch::TimeLadder(const DeviceMesh& mesh, const BatchCut& cut,
                                                 int cap_count) {
  std::vector<MeshSolution> ladder;
  if (MustStop()) return ladder;
  const StrategyGraph graph = GraphOf(mesh, cut);
  if (MustStop()) return ladder;
  GraphSearch search(graph, Limits());
  std::optional<GraphAnswer> fastest = search.SolveLeastTime();
  std::optional<GraphAnswer> smallest;
  if (fastest) smallest = search.SolveLexicographic();
  if (fastest) ladder.push_back(SolutionOf(graph, mesh, cut, *fastest));
  if (smallest) {
    const double largest = fastest->totals.peak_bytes;
    const double least = smallest->totals.peak_bytes;
    for (int rung = cap_count; rung >= 1 && least < largest * (1.0 - kTie); --rung) {
      const double cap = least + (largest - least) * rung / (cap_count + 1);
      std::optional<GraphAnswer> answer = search.SolveLeastTime(cap);
      if (answer) ladder.push_back(SolutionOf(graph, mesh, cut, *std::move(answer)));
    }
    ladder.push_back(SolutionOf(graph, mesh, cut, *std::move(smallest)));
  }
  Count(search);
  return ladder;
}

}  // namespace parplan
