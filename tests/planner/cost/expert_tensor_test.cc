// Layers whose experts have a tensor-parallel degree of their own ("folding"), by hand and beside
// those that do not.

#include <iterator>
#include <vector>

#include "gtest/gtest.h"
#include "planner/cost/activation_tensors.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/layer_memory.h"
#include "planner/cost/layer_operations.h"
#include "planner/cost/layer_source.h"
#include "planner/cost/layer_traffic.h"
#include "planner/model/layer_matrices.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/sample_layers.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

// 64 experts, of which a token passes 8, without an expert that all tokens pass.
LayerDefinition FoldedLayer(int shared_width = 0) {
  LayerDefinition layer = WindowLayer(4096, 0);
  layer.layer_definition_id = "experts";
  layer.feed_forward_size = 0;
  layer.parameter_count = 0;
  layer.expert_count = 64;
  layer.experts_per_token = 8;
  layer.expert_feed_forward_size = 2048;
  layer.shared_expert_feed_forward_size = shared_width;
  return Valid(LayerDefinition::Create(layer, "layer"));
}

// Eight ranks: tensor parallelism of 4 over two replicas.
Strategy Folded(int expert_tensor, int expert) {
  Strategy strategy{.tensor_parallel_degree = 4, .data_parallel_degree = 2};
  strategy.sequence_parallel = true;
  strategy.expert_parallel_degree = expert;
  strategy.expert_tensor_parallel_degree = expert_tensor;
  return strategy;
}

TEST(ExpertTensorDegree, DividesTheMatricesOfExpertsAlone) {
  const LayerDefinition layer = FoldedLayer();
  const auto footprint = [&layer](const Strategy& strategy) {
    return FootprintOf(layer, Precision::kBf16, *FindRuntime("megatron-core"), strategy, false);
  };
  const int64_t expert = FeedForwardElementsOf(layer).expert;
  const LayerFootprint together = footprint(Folded(0, 2));
  EXPECT_EQ(together.expert_parameter_count, 32 * expert / 4);
  const LayerFootprint whole = footprint(Folded(1, 8));
  EXPECT_EQ(whole.expert_parameter_count, 8 * expert);
  EXPECT_EQ(whole.parameter_count, together.parameter_count);
  EXPECT_EQ(footprint(Folded(2, 4)).expert_parameter_count, 16 * expert / 2);
}

// Eight copies of each rank's own tokens and their weights instead of those of four ranks; the
// inner tensors are as large.
TEST(ExpertTensorDegree, KeepsTheTokensOfTheRanksOfAnExpert) {
  const LayerDefinition layer = FoldedLayer();
  const auto kept = [&layer](const Strategy& strategy) {
    return ActivationBytesOf(layer, Precision::kBf16, *FindRuntime("megatron-core"), strategy)
        .Kept(RecomputeLevel::kNone);
  };
  const double copies = 8 * 4096 * (2.0 * layer.hidden_size + 4.0);
  EXPECT_DOUBLE_EQ(kept(Folded(0, 2)) - kept(Folded(1, 2)), copies * 3 / 4);
  EXPECT_DOUBLE_EQ(kept(Folded(0, 2)) - kept(Folded(2, 2)), copies / 2);
}

TEST(ExpertTensorDegree, DoesTheSameOperations) {
  const LayerDefinition layer = FoldedLayer(/*shared_width=*/1024);
  const RuntimeTraits runtime = *FindRuntime("megatron-core");
  const auto flops = [&](int expert_tensor) {
    LayerOperations operations;
    ListOperations(layer, Precision::kBf16, runtime,
                   {.tensor_parallel_degree = 4,
                    .expert_parallel_degree = 2,
                    .sequence_parallel = true,
                    .expert_tensor_parallel_degree = expert_tensor},
                   1.0, operations);
    return operations.forward.Flops();
  };
  EXPECT_NEAR(flops(1) / flops(0), 1.0, 1e-12);
  EXPECT_NEAR(flops(2) / flops(0), 1.0, 1e-12);
}

// Without an expert for all tokens, ranks that have whole experts exchange nothing but tokens.
TEST(ExpertTensorDegree, ExchangesTokensInTheGroupsOfExperts) {
  const PlanningProblem problem = EstimatedProblemOf(FoldedLayer(), 2, 8, 8);
  const CostModel costs = Valid(CostModel::Create(problem));
  const LayerTraffic& traffic = costs.group(kFirstGroup).traffic();
  const LayerDefinition& layer = problem.model().layer(1);
  const auto list = [&](const Strategy& strategy) {
    return traffic.ExpertCollectives(layer, strategy, 2.0).forward;
  };
  const CollectiveList whole = list(Folded(1, 8));
  ASSERT_EQ(std::distance(whole.begin(), whole.end()), 1);
  EXPECT_EQ(whole.begin()->collective, Collective::kAllToAll);
  EXPECT_EQ(whole.begin()->group, (GroupShape{8, 1}));
  EXPECT_EQ(whole.begin()->bytes, list(Folded(0, 2)).begin()->bytes);
  const CollectiveList halves = list(Folded(2, 4));
  ASSERT_EQ(std::distance(halves.begin(), halves.end()), 3);
  EXPECT_EQ(halves.begin()->collective, Collective::kAllGather);
  EXPECT_EQ(halves.begin()->group, (GroupShape{2, 1}));
  // Eight copies of the tokens of two ranks of four.
  EXPECT_EQ(halves.begin()->bytes, 8 * 2.0 * 4096 * layer.hidden_size * 2 / 2);
  EXPECT_EQ((halves.end() - 1)->group, (GroupShape{4, 2}));

  const auto calls = [&](const Strategy& strategy) {
    double count = 0.0;
    for (const LayerCollective& call : traffic.TensorCollectives(layer, strategy, 2.0).forward) {
      count += call.count;
    }
    return count;
  };
  EXPECT_EQ(calls(Folded(0, 2)), 4.0);
  EXPECT_EQ(calls(Folded(1, 2)), 2.0);
}

// Experts on all eight ranks have no gradient to sum up; on four of them those of two ranks.
TEST(ExpertTensorDegree, SumsGradientsOverTheRanksWithTheSameExperts) {
  const PlanningProblem problem = EstimatedProblemOf(FoldedLayer(), 2, 8, 8);
  const CostModel costs = Valid(CostModel::Create(problem));
  const GroupCosts& group = costs.group(kFirstGroup);
  const auto groups = [&](const Strategy& strategy) {
    const LayerFootprint footprint = group.layer_source(1).Footprint(strategy, 1);
    std::vector<GroupShape> found;
    for (const LayerCollective& call :
         group.traffic().DataCollectives(footprint, strategy, ShardingLevel::kNone).backward) {
      found.push_back(call.group);
    }
    return found;
  };
  EXPECT_EQ(groups(Folded(1, 8)), (std::vector<GroupShape>{{2, 4}}));
  EXPECT_EQ(groups(Folded(1, 4)), (std::vector<GroupShape>{{2, 4}, {2, 4}}));
  EXPECT_EQ(groups(Folded(2, 1)), (std::vector<GroupShape>{{2, 4}, {4, 2}}));
  EXPECT_EQ(groups(Folded(0, 2)), (std::vector<GroupShape>{{2, 4}}));
}

}  // namespace
}  // namespace parplan
