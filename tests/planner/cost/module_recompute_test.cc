// Layers that recompute modules by name: the bytes they keep, by hand, and the time and the
// exchanges they repeat.

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "planner/cost/activation_tensors.h"
#include "planner/cost/analytic_layer.h"
#include "planner/cost/cost_model.h"
#include "tests/planner/cost/hardware_of_tests.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/sample_layers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

using enum RecomputeModule;

RecomputeModules Set(const std::vector<RecomputeModule>& modules) {
  return Valid(RecomputeModules::Create(modules, "recompute_modules"));
}

// The dense layer of DeepSeek-V3 with experts in place of its feed-forward part.
LayerDefinition ExpertLayer() {
  LayerDefinition layer = LatentLayer();
  layer.layer_definition_id = "experts";
  layer.feed_forward_size = 0;
  layer.parameter_count = 0;
  layer.expert_count = 256;
  layer.experts_per_token = 8;
  layer.expert_feed_forward_size = 2048;
  layer.shared_expert_feed_forward_size = 2048;
  return Valid(LayerDefinition::Create(layer, "layer"));
}

// Returns the bytes of a token that each of `degree` tensor-parallel ranks with its own tokens does
// not keep.
double FreedAToken(const LayerDefinition& layer, const std::vector<RecomputeModule>& modules,
                   const Strategy& strategy = {}) {
  const ActivationBytes bytes =
      ActivationBytesOf(layer, Precision::kBf16, *FindRuntime("megatron-core"), strategy);
  return (bytes.Kept(RecomputeLevel::kNone) - bytes.Kept(Recomputation(Set(modules)))) /
         layer.sequence_length;
}

TEST(ModuleRecompute, FreesWhatEachModuleMakesAgain) {
  const LayerDefinition dense = LatentLayer();
  // The input of the maps to compressed vectors, behind the norm.
  EXPECT_DOUBLE_EQ(FreedAToken(dense, {kNorms}), 2.0 * 7168);
  // Queries and keys of 192, values of 128, and the compressed vectors behind their norms.
  const double up = 2.0 * 128 * (192 + 192 + 128) + 2.0 * (1536 + 512);
  EXPECT_DOUBLE_EQ(FreedAToken(dense, {kLatentUpProjection}), up);
  // The input of gate and up, behind the norm, both outputs and the input of down.
  EXPECT_DOUBLE_EQ(FreedAToken(dense, {kFeedForward}), 2.0 * 7168 + 3 * 2.0 * 18432);
  EXPECT_DOUBLE_EQ(FreedAToken(dense, {kExperts}), 0.0);

  const LayerDefinition experts = ExpertLayer();
  EXPECT_DOUBLE_EQ(FreedAToken(experts, {kNorms}), 2 * 2.0 * 7168);
  EXPECT_DOUBLE_EQ(FreedAToken(experts, {kExpertActivation}), 8 * 2.0 * 2048);
  EXPECT_DOUBLE_EQ(FreedAToken(experts, {kSharedExperts}), 3 * 2.0 * 2048);
  // Scores of the router; eight copies of each token in the experts' order with their weights; and
  // both parts.
  const double all = 8.0 * 256 + 8 * (2.0 * 7168 + 4.0) + 8 * 3 * 2.0 * 2048 + 3 * 2.0 * 2048;
  EXPECT_DOUBLE_EQ(FreedAToken(experts, {kExperts}), all);
  EXPECT_DOUBLE_EQ(FreedAToken(experts, {kExperts, kExpertActivation, kSharedExperts}), all);
  EXPECT_DOUBLE_EQ(FreedAToken(experts, {kFeedForward}), 0.0);
}

// Rings keep keys and values in a form of their own, Ulysses queries too.
TEST(ModuleRecompute, FreesNothingThatSharedTokensKeep) {
  const LayerDefinition layer = LatentLayer();
  Strategy shared{.context_parallel_degree = 2};
  const double compressed = 2.0 * (1536 + 512) / 2;
  EXPECT_DOUBLE_EQ(FreedAToken(layer, {kLatentUpProjection}, shared),
                   compressed + 2.0 * 128 * 192 / 2);
  shared.context_kind = ContextKind::kUlysses;
  EXPECT_DOUBLE_EQ(FreedAToken(layer, {kLatentUpProjection}, shared), compressed);
}

// Times of a module are between nothing and those of the whole layer, add up, and are 0 without it.
TEST(ModuleRecompute, TakesTheTimeOfItsModules) {
  for (const LayerDefinition& layer : {LatentLayer(), ExpertLayer(), WindowLayer(4096, 0)}) {
    const PlanningProblem problem = EstimatedProblemOf(layer, /*layer_count=*/2,
                                                       /*device_count=*/8, 8);
    const CostModel costs = Valid(CostModel::Create(problem));
    const auto cost = [&](const Recomputation& recomputation) {
      Strategy strategy;
      strategy.set_recomputation(recomputation);
      return costs.group(kFirstGroup).CostOfLayer(1, strategy, 1, 1);
    };
    const auto again = [&](const std::vector<RecomputeModule>& modules) {
      return cost(Recomputation(Set(modules))).time[TimeItemKind::kRecompute].value();
    };
    const double whole = cost(RecomputeLevel::kFull).time[TimeItemKind::kRecompute].value();
    double sum = 0.0;
    for (const RecomputeModule module : {kNorms, kLatentUpProjection, kFeedForward, kExperts}) {
      SCOPED_TRACE(layer.layer_definition_id + " " + std::string(RecomputeModuleName(module)));
      const double own = again({module});
      EXPECT_EQ(own > 0.0, HasRecomputeModule(layer, module));
      EXPECT_LT(own, whole);
      sum += own;
    }
    EXPECT_NEAR(again({kNorms, kLatentUpProjection, kFeedForward, kExperts}), sum, 1e-12 * whole);
    // Nested modules are made again once more.
    EXPECT_NEAR(again({kExperts, kSharedExperts}), again({kExperts}) + again({kSharedExperts}),
                1e-12 * whole);
    EXPECT_GE(again({kExperts}), again({kExpertActivation, kSharedExperts}));
    EXPECT_LT(sum, whole);
  }
}

// Attention that is run again takes the time of its forward pass, and so does the ring around it,
// whatever else is made again.
TEST(ModuleRecompute, RunsFusedAttentionAndItsRingAgain) {
  const PlanningProblem problem = EstimatedProblemOf(WindowLayer(65536, 0), 2, 8, 8);
  const CostModel costs = Valid(CostModel::Create(problem));
  for (const int context : {1, 8}) {
    Strategy strategy{.data_parallel_degree = 8 / context, .context_parallel_degree = context};
    const auto time = [&](const Recomputation& recomputation) {
      Strategy with = strategy;
      with.set_recomputation(recomputation);
      return costs.group(kFirstGroup).CostOfLayer(1, with, 8, 1).time;
    };
    using enum TimeItemKind;
    const TimeItems none = time(RecomputeLevel::kNone);
    const TimeItems attention = time(RecomputeLevel::kSelective);
    const TimeItems full = time(RecomputeLevel::kFull);
    // With 65,536 tokens attention takes most of the layer's time.
    EXPECT_GT(attention[kRecompute], full[kRecompute] * 0.5);
    EXPECT_LT(attention[kRecompute], full[kRecompute]);
    EXPECT_EQ(attention[kContextParallel], full[kContextParallel]);
    if (context > 1) {
      EXPECT_GT(attention[kContextParallel], none[kContextParallel]);
    }
    const TimeItems both = time(Recomputation(Set({kCoreAttention, kFeedForward})));
    const TimeItems other = time(Recomputation(Set({kFeedForward})));
    EXPECT_NEAR((both[kRecompute] - other[kRecompute]) / attention[kRecompute], 1.0, 1e-9);
    EXPECT_EQ(both[kContextParallel], attention[kContextParallel]);
  }
}

// Everything that is kept less is there while the layer runs backward, so one layer alone needs as
// much as without.
TEST(ModuleRecompute, MovesMemoryFromKeptToRunning) {
  const PlanningProblem problem = EstimatedProblemOf(ExpertLayer(), 2, 8, 8);
  const CostModel costs = Valid(CostModel::Create(problem));
  const auto memory = [&](const Recomputation& recomputation) {
    Strategy strategy;
    strategy.set_recomputation(recomputation);
    return costs.group(kFirstGroup).CostOfLayer(1, strategy, 1, 1).memory;
  };
  const LayerMemory none = memory(RecomputeLevel::kNone);
  const LayerMemory some = memory(Recomputation(Set({kNorms, kExpertActivation})));
  const LayerMemory more = memory(Recomputation(Set({kNorms, kExperts})));
  const LayerMemory full = memory(RecomputeLevel::kFull);
  EXPECT_LT(some.kept, none.kept);
  EXPECT_LT(more.kept, some.kept);
  EXPECT_LT(full.kept, more.kept);
  const auto at_peak = [](const LayerMemory& each) {
    return (each.kept + each.running).as_double();
  };
  EXPECT_NEAR(at_peak(some), at_peak(none), 2.0);
  EXPECT_NEAR(at_peak(more), at_peak(none), 2.0);
  EXPECT_EQ(some.states(), none.states());
}

// A feed-forward part gathers and scatters once more, experts exchange their tokens twice more, and
// the map to queries gathers compressed vectors.
TEST(ModuleRecompute, RepeatsTheExchangesOfItsModules) {
  const PlanningProblem problem = EstimatedProblemOf(ExpertLayer(), 2, 8, 8);
  const CostModel costs = Valid(CostModel::Create(problem));
  Strategy strategy{.tensor_parallel_degree = 2, .data_parallel_degree = 4};
  strategy.sequence_parallel = true;
  strategy.expert_parallel_degree = 4;
  const auto times = [&](const Recomputation& recomputation) {
    Strategy with = strategy;
    with.set_recomputation(recomputation);
    return costs.group(kFirstGroup).CostOfLayer(1, with, 4, 1).time;
  };
  using enum TimeItemKind;
  const TimeItems none = times(RecomputeLevel::kNone);
  const TimeItems experts = times(Recomputation(Set({kExperts})));
  EXPECT_NEAR(experts[kExpertParallel] / none[kExpertParallel], 1.5, 1e-9);
  EXPECT_GT(experts[kTensorParallel], none[kTensorParallel]);
  const TimeItems activation = times(Recomputation(Set({kExpertActivation, kNorms})));
  EXPECT_EQ(activation[kExpertParallel], none[kExpertParallel]);
  EXPECT_EQ(activation[kTensorParallel], none[kTensorParallel]);
  const TimeItems queries = times(Recomputation(Set({kLatentUpProjection})));
  EXPECT_GT(queries[kTensorParallel], none[kTensorParallel]);
  EXPECT_LT(queries[kTensorParallel], experts[kTensorParallel]);
}

// What core attention frees it makes again, also of a runtime whose selective recomputation is by
// operators.
TEST(ModuleRecompute, TakesTheTimeOfUnfusedAttentionUnderOperators) {
  RuntimeTraits runtime = *FindRuntime("torchtitan");
  runtime.attention_kernel = AttentionKernel::kUnfused;
  runtime.selective_recompute = SelectiveRecompute::kOperators;
  const LayerDefinition layer = WindowLayer(4096, 0);
  const auto times = [&] {
    return AnalyticLayer(layer, Precision::kBf16, runtime, TestDevice(), Coefficients("ampere"))
        .Times(LayerShape(), 1.0, /*with_modules=*/true);
  };
  const AnalyticTimes operators = times();
  runtime.selective_recompute = SelectiveRecompute::kAttention;
  const AnalyticTimes attention = times();
  const PassTime& module = operators.modules[static_cast<int>(kCoreAttention)];
  EXPECT_GT(module.device, Seconds());
  EXPECT_NEAR(module.device / attention.selective_recompute.device, 1.0, 1e-12);
  EXPECT_NEAR(module.host / attention.selective_recompute.host, 1.0, 1e-12);
  EXPECT_LT(module.device, operators.selective_recompute.device);
}

// Fused attention that is not run again needs no keys and values again.
TEST(ModuleRecompute, RepeatsNoRingAroundAttentionThatItKeeps) {
  const PlanningProblem problem = EstimatedProblemOf(WindowLayer(65536, 0), 2, 8, 8);
  PlanningRules rules = problem.rules();
  rules.runtime = *FindRuntime("torchtitan");
  rules.runtime.selective_recompute = SelectiveRecompute::kOperators;
  const PlanningProblem titan = Valid(PlanningProblem::Create(
      std::make_shared<const ModelSpec>(problem.model()),
      std::make_shared<const Topology>(problem.topology()),
      Knowledge{{{.hardware = std::make_shared<const Hardware>(*problem.hardware(kFirstGroup))}}},
      8, rules));
  const CostModel costs = Valid(CostModel::Create(titan));
  const LayerTraffic& traffic = costs.group(kFirstGroup).traffic();
  const Strategy ring{.context_parallel_degree = 8};
  EXPECT_FALSE(traffic.RepeatsContext(ring, Recomputation(Set({kCoreAttention, kFeedForward}))));
  EXPECT_TRUE(traffic.RepeatsContext(ring, RecomputeLevel::kSelective));
  EXPECT_TRUE(traffic.RepeatsContext(ring, RecomputeLevel::kFull));
}

}  // namespace
}  // namespace parplan
