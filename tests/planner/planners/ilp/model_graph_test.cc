#include "planner/planners/ilp/model_graph.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "planner/planners/ilp/graph_search.h"
#include "planner/planners/ilp/mesh_search.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

PlanningProblem SmallProblem(int device_count, int decoder_count, bool tied = true) {
  EstimatedOptions options;
  options.device_count = device_count;
  options.decoder_count = decoder_count;
  options.hidden_size = 1024;
  options.attention_head_count = 16;
  options.sequence_length = 512;
  options.tied_embedding = tied;
  options.global_batch_size = 8;
  return EstimatedProblem(options);
}

// Everything on every device.
GraphChoice ReplicatedChoice(const StrategyGraph& graph) {
  GraphChoice choice;
  for (const GraphNode& node : graph.nodes) {
    const auto found = std::find_if(node.options.begin(), node.options.end(), [](const auto& o) {
      return o.tag.find_first_not_of('r') == std::string::npos;
    });
    EXPECT_NE(found, node.options.end());
    choice.push_back(static_cast<int>(found - node.options.begin()));
  }
  return choice;
}

class Foldings : public testing::TestWithParam<Folding> {};
INSTANTIATE_TEST_SUITE_P(All, Foldings,
                         testing::Values(Folding::kNone, Folding::kMiddle, Folding::kAll));

TEST_P(Foldings, AddUpToTheCostModelWhereEveryDeviceDoesAll) {
  const PlanningProblem estimated = SmallProblem(8, 5);
  const PlanningProblem measured = SyntheticProblem({.decoder_count = 5});
  for (const PlanningProblem* problem : {&estimated, &measured}) {
    const CostModel costs = *CostModel::Create(*problem);
    const OperatorTimes times(*problem, MeshesOf(8));
    const StrategyGraph graph = GraphOfModel(problem->model(), costs, times,
                                             {.mesh = MeshesOf(8)[0],
                                              .micro_batch_size = 4,
                                              .micro_batch_count = 2,
                                              .folding = GetParam()});
    const GraphTotals totals = EvaluateChoice(graph, ReplicatedChoice(graph));
    double states = 0.0;
    double seconds = 0.0;
    double kept = 0.0;
    for (const int index : problem->model().definition_of_layer()) {
      const LayerCost cost = costs.group(kFirstGroup).CostOfLayer(index, Strategy(), 4, 1);
      states += cost.memory.states().as_double();
      seconds += 2.0 * (cost.forward + cost.backward).value();
      if (IsTransformer(problem->model().layer_definitions()[index].kind)) {
        kept += cost.memory.kept.as_double();
      }
    }
    EXPECT_NEAR(totals.state_bytes / states, 1.0, 1e-9);
    EXPECT_NEAR(totals.seconds / seconds, 1.0, 1e-9);
    // Embedding and head keep something too.
    EXPECT_GE(totals.kept_bytes, kept * 0.9);
  }
}

// Y = XW on two devices, by hand: W has 2 x 3 units and Y has 4 x 3. Rows split Y and replicate W;
// columns split both; the inner dimension splits W and replicates Y.
TEST(RedundantBytes, AreThoseBeyondAnEvenShare) {
  GraphNode product{.name = "product", .unique_bytes = 6.0 + 12.0};
  const NodeOption rows{.tag = "m", .state_bytes = 6.0, .kept_bytes = 6.0};
  const NodeOption columns{.tag = "n", .state_bytes = 3.0, .kept_bytes = 6.0};
  const NodeOption inner{.tag = "k", .state_bytes = 3.0, .kept_bytes = 12.0};
  const NodeOption replicated{.tag = "r", .state_bytes = 6.0, .kept_bytes = 12.0};
  EXPECT_EQ(RedundantBytes(product, rows, 2), 3.0);
  EXPECT_EQ(RedundantBytes(product, columns, 2), 0.0);
  EXPECT_EQ(RedundantBytes(product, inner, 2), 6.0);
  EXPECT_EQ(RedundantBytes(product, replicated, 2), 9.0);
}

TEST(GraphOfModel, NoOptionHoldsLessThanAnEvenShareAndReplicasHoldAll) {
  const PlanningProblem problem = SmallProblem(8, 3);
  const CostModel costs = *CostModel::Create(problem);
  const OperatorTimes times(problem, MeshesOf(8));
  for (const DeviceMesh& mesh : MeshesOf(8)) {
    const StrategyGraph graph =
        GraphOfModel(problem.model(), costs, times, {.mesh = mesh, .micro_batch_size = 8});
    for (const GraphNode& node : graph.nodes) {
      for (const NodeOption& option : node.options) {
        EXPECT_GE(RedundantBytes(node, option, 8), -1e-6 * node.unique_bytes)
            << node.name << " " << option.tag;
      }
    }
    // The redundancy of a choice is that of its options and the second copies of tensors.
    const GraphChoice all = ReplicatedChoice(graph);
    const double share = EvenShareBytes(graph, 8);
    EXPECT_NEAR(EvaluateChoice(graph, all).memory_bytes() / (8.0 * share), 1.0, 1e-9);
  }
}

TEST(GraphOfModel, FoldsUpToThreeLayersWithoutTyingAny) {
  for (int layers = 1; layers <= 3; ++layers) {
    const PlanningProblem problem = SmallProblem(4, layers);
    const CostModel costs = *CostModel::Create(problem);
    MeshSearch folded(problem, costs, {}, Folding::kMiddle);
    MeshSearch expanded(problem, costs, {}, Folding::kNone);
    for (const DeviceMesh& mesh : folded.meshes()) {
      const auto a = folded.LeastMemory(mesh, {8, 1});
      const auto b = expanded.LeastMemory(mesh, {8, 1});
      ASSERT_TRUE(a.has_value() && b.has_value());
      EXPECT_DOUBLE_EQ(a->answer.totals.memory_bytes(), b->answer.totals.memory_bytes());
      EXPECT_DOUBLE_EQ(a->answer.totals.seconds, b->answer.totals.seconds);
    }
  }
}

// Folding equal layers does not change the optimum.
TEST(GraphOfModel, LosesNothingByFolding) {
  for (const bool tied : {false, true}) {
    const PlanningProblem problem = SmallProblem(8, 7, tied);
    const CostModel costs = *CostModel::Create(problem);
    MeshSearch middle(problem, costs, {}, Folding::kMiddle);
    MeshSearch all(problem, costs, {}, Folding::kAll);
    MeshSearch expanded(problem, costs, {}, Folding::kNone);
    for (const DeviceMesh& mesh : middle.meshes()) {
      const auto a = middle.LeastMemory(mesh, {8, 1});
      const auto b = expanded.LeastMemory(mesh, {8, 1});
      const auto c = all.LeastMemory(mesh, {8, 1});
      ASSERT_TRUE(a.has_value() && b.has_value() && c.has_value());
      const double least = b->answer.totals.memory_bytes();
      EXPECT_NEAR(a->answer.totals.memory_bytes() / least, 1.0, 1e-9);
      EXPECT_NEAR(a->answer.totals.seconds / b->answer.totals.seconds, 1.0, 1e-6);
      // Ends that follow the middle cost at most a little.
      EXPECT_GE(c->answer.totals.memory_bytes(), least * (1.0 - 1e-9));
    }
  }
}

TEST(GraphOfModel, LeastMemoryIsNoMoreThanAnyOtherGoals) {
  const PlanningProblem problem = SmallProblem(8, 12);
  const CostModel costs = *CostModel::Create(problem);
  MeshSearch search(problem, costs, {}, Folding::kAll);
  const auto smallest = search.LeastMemory({8, 1});
  const auto fastest = search.LeastTime({8, 1}, std::nullopt);
  ASSERT_TRUE(smallest.has_value() && fastest.has_value());
  EXPECT_LT(smallest->answer.totals.memory_bytes(), fastest->answer.totals.memory_bytes());
  EXPECT_GT(smallest->answer.totals.seconds, fastest->answer.totals.seconds);
  double before = smallest->answer.totals.seconds * 1e9;
  for (const double share : {0.0, 0.1, 0.3, 0.6, 1.0}) {
    const double least = smallest->answer.totals.peak_bytes;
    const double cap = least + share * (fastest->answer.totals.peak_bytes - least);
    const auto capped = search.LeastTime({8, 1}, cap * (1.0 + 1e-9));
    ASSERT_TRUE(capped.has_value()) << share;
    EXPECT_LE(capped->answer.totals.peak_bytes, cap * (1.0 + 1e-6));
    EXPECT_LE(capped->answer.totals.seconds, before * (1.0 + 1e-6));
    before = capped->answer.totals.seconds;
  }
  EXPECT_NEAR(before, fastest->answer.totals.seconds, before * 1e-6);
}

TEST(GraphOfModel, TiedTablesLieAlikeOrAreCopied) {
  const PlanningProblem problem = SmallProblem(8, 2);
  const CostModel costs = *CostModel::Create(problem);
  const OperatorTimes times(problem, MeshesOf(8));
  const DeviceMesh mesh = MeshesOf(8)[0];
  const StrategyGraph graph =
      GraphOfModel(problem.model(), costs, times, {.mesh = mesh, .micro_batch_size = 8});
  const GraphEdge& table = graph.edges.back();
  EXPECT_EQ(graph.nodes[table.from].name, "embedding.table");
  EXPECT_EQ(graph.nodes[table.to].name, "head.classes");
  const auto option = [&](int node, const std::string& tag) {
    const auto& options = graph.nodes[node].options;
    return static_cast<int>(
        std::find_if(options.begin(), options.end(), [&](const auto& o) { return o.tag == tag; }) -
        options.begin());
  };
  const auto copy = [&](const std::string& embedding, const std::string& head) {
    return table.kept_bytes[table.Pair(option(table.from, embedding), option(table.to, head))];
  };
  const double bytes = 2.0 * 51200 * 1024;
  // By hidden columns: the embedding's columns, the head's inner dimension.
  EXPECT_EQ(copy("n", "k"), 0.0);
  EXPECT_EQ(copy("k", "n"), 0.0);
  EXPECT_EQ(copy("m", "r"), 0.0);
  EXPECT_EQ(copy("r", "n"), 0.0);
  EXPECT_DOUBLE_EQ(copy("n", "n"), bytes / 8);
  EXPECT_DOUBLE_EQ(copy("n", "m"), bytes);
}

}  // namespace
}  // namespace parplan
