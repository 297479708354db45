// Experts that read and return vectors narrower than the layer (LatentMoE), by hand and beside
// those that do not.

#include <vector>

#include "gtest/gtest.h"
#include "planner/cost/activation_tensors.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/layer_memory.h"
#include "planner/cost/layer_operations.h"
#include "planner/cost/layer_traffic.h"
#include "planner/model/layer_flops.h"
#include "planner/model/layer_matrices.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/sample_layers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

// 64 experts of two matrices, of which a token passes 8.
LayerDefinition LatentExperts(int latent_size, int shared_width = 0) {
  LayerDefinition layer = WindowLayer(4096, 0);
  layer.layer_definition_id = "experts";
  layer.feed_forward_kind = FeedForwardKind::kGelu;
  layer.feed_forward_size = 0;
  layer.parameter_count = 0;
  layer.expert_count = 64;
  layer.experts_per_token = 8;
  layer.expert_feed_forward_size = 2048;
  layer.shared_expert_feed_forward_size = shared_width;
  layer.expert_latent_size = latent_size;
  return Valid(LayerDefinition::Create(layer, "layer"));
}

TEST(ExpertLatentSize, NarrowsTheMatricesOfExpertsAlone) {
  const LayerDefinition plain = LatentExperts(0, 1024);
  const LayerDefinition narrow = LatentExperts(plain.hidden_size / 4, 1024);
  const int64_t hidden = plain.hidden_size;
  const FeedForwardElements elements = FeedForwardElementsOf(narrow);
  EXPECT_EQ(elements.expert, 2 * hidden / 4 * 2048);
  EXPECT_EQ(elements.latent, 2 * hidden * hidden / 4);
  EXPECT_EQ(elements.dense, 2 * hidden * 1024);
  EXPECT_EQ(elements.router, hidden * 64);
  EXPECT_EQ(plain.parameter_count - narrow.parameter_count,
            64 * (2 * hidden * 2048 * 3 / 4) - elements.latent);
  // Forward operations: two a parameter that a token meets.
  EXPECT_DOUBLE_EQ(ForwardFlopsPerSample(plain, 4096) - ForwardFlopsPerSample(narrow, 4096),
                   2.0 * 4096 * (8 * (2 * hidden * 2048 * 3 / 4) - elements.latent));
}

// The maps are whole on every tensor-parallel rank.
TEST(ExpertLatentSize, AddsMapsThatNoRankDivides) {
  const LayerDefinition layer = LatentExperts(1024);
  const auto footprint = [&layer](int tensor) {
    Strategy strategy{.tensor_parallel_degree = tensor, .data_parallel_degree = 8 / tensor};
    strategy.expert_tensor_parallel_degree = 1;
    strategy.sequence_parallel = tensor > 1;
    return FootprintOf(layer, Precision::kBf16, *FindRuntime("megatron-core"), strategy, false)
        .parameter_count;
  };
  const FeedForwardElements elements = FeedForwardElementsOf(layer);
  const LayerDefinition without = LatentExperts(0);
  const int64_t split =
      MixerElements(layer).matrices.split + MixerElements(layer).matrices.of_key_value_heads;
  EXPECT_EQ(footprint(1) - footprint(2), split / 2);
  EXPECT_EQ(footprint(1) - MixerElements(layer).Sum() - elements.copied(),
            2 * int64_t{layer.hidden_size});
  EXPECT_EQ(FeedForwardElementsOf(without).latent, 0);
}

// The products of each token: as many operations as the closed form, also where ranks share tokens.
TEST(ExpertLatentSize, OperationsAreTheModels) {
  const RuntimeTraits runtime = *FindRuntime("megatron-core");
  for (const int shared : {0, 1024}) {
    const LayerDefinition layer = LatentExperts(1024, shared);
    LayerOperations operations;
    ListOperations(layer, Precision::kBf16, runtime, {}, 1.0, operations);
    EXPECT_NEAR(operations.forward.Flops() / ForwardFlopsPerSample(layer, layer.sequence_length),
                1.0, 1e-12);
    // Four ranks that share the tokens outside attention each map their own.
    LayerOperations split;
    ListOperations(layer, Precision::kBf16, runtime,
                   {.tensor_parallel_degree = 4,
                    .expert_parallel_degree = 2,
                    .sequence_parallel = true,
                    .expert_tensor_parallel_degree = 1},
                   1.0, split);
    EXPECT_NEAR(4.0 * split.forward.Flops() / operations.forward.Flops(), 1.0, 1e-12);
  }
}

// A token leaves for its experts as narrow as they read it.
TEST(ExpertLatentSize, TokensTravelNarrow) {
  const PlanningProblem problem = EstimatedProblemOf(LatentExperts(1024), 2, 8, 8);
  const PlanningProblem plain = EstimatedProblemOf(LatentExperts(0), 2, 8, 8);
  const auto bytes = [](const PlanningProblem& of, int expert_tensor, int expert) {
    const CostModel costs = Valid(CostModel::Create(of));
    Strategy strategy{.tensor_parallel_degree = 4, .data_parallel_degree = 2};
    strategy.sequence_parallel = true;
    strategy.expert_parallel_degree = expert;
    strategy.expert_tensor_parallel_degree = expert_tensor;
    std::vector<double> found;
    for (const LayerCollective& call : costs.group(kFirstGroup)
                                           .traffic()
                                           .ExpertCollectives(of.model().layer(1), strategy, 2.0)
                                           .forward) {
      found.push_back(call.bytes);
    }
    return found;
  };
  const double ratio = 1024.0 / problem.model().layer(1).hidden_size;
  for (const auto& [expert_tensor, expert] : {std::pair{1, 8}, std::pair{2, 4}, std::pair{0, 2}}) {
    const std::vector<double> narrow = bytes(problem, expert_tensor, expert);
    const std::vector<double> wide = bytes(plain, expert_tensor, expert);
    ASSERT_EQ(narrow.size(), wide.size());
    for (size_t i = 0; i < narrow.size(); ++i) EXPECT_DOUBLE_EQ(narrow[i], ratio * wide[i]);
  }
}

// Narrower vectors keep less, but for the input of the map back, and never take longer to exchange.
TEST(ExpertLatentSize, KeepsNarrowCopies) {
  Strategy strategy{.data_parallel_degree = 8};
  strategy.expert_parallel_degree = 8;
  const auto kept = [&strategy](const LayerDefinition& layer) {
    return ActivationBytesOf(layer, Precision::kBf16, *FindRuntime("megatron-core"), strategy)
        .Kept(RecomputeLevel::kNone);
  };
  const LayerDefinition plain = LatentExperts(0);
  const double hidden = plain.hidden_size;
  const double copies = 8.0 * plain.sequence_length * 2.0 * (hidden - 1024.0);
  EXPECT_DOUBLE_EQ(kept(plain) - kept(LatentExperts(1024)),
                   copies - 2.0 * plain.sequence_length * 1024.0);
  EXPECT_LT(kept(LatentExperts(512)), kept(LatentExperts(1024)));
}

TEST(ExpertLatentSize, NeedsExperts) {
  LayerDefinition layer = WindowLayer(4096, 0);
  layer.expert_latent_size = 1024;
  EXPECT_THAT(LayerDefinition::Create(layer, "layer").status().ToString(),
              testing::HasSubstr("layer.expert_latent_size"));
  layer = LatentExperts(1024);
  layer.expert_latent_size = -1;
  EXPECT_THAT(LayerDefinition::Create(layer, "layer").status().ToString(),
              testing::HasSubstr("layer.expert_latent_size"));
  // Programs that know no other layers refuse it.
  EXPECT_TRUE(HasUsualParts(LatentExperts(0)));
  EXPECT_FALSE(HasUsualParts(LatentExperts(1024)));
}

}  // namespace
}  // namespace parplan
