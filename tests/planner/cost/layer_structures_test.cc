// Costs of windows, latent attention, state spaces, further tokens and opaque layers, by hand and
// by the laws that hold for all of them.

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/plan_check.h"
#include "planner/cost/activation_tensors.h"
#include "planner/cost/analytic_layer.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/fabric_time.h"
#include "planner/cost/layer_memory.h"
#include "planner/cost/layer_operations.h"
#include "planner/find_plan.h"
#include "planner/model/layer_matrices.h"
#include "tests/planner/cost/hardware_of_tests.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/sample_layers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

LayerOperations OperationsOf(const LayerDefinition& layer, const LayerShape& shape = {},
                             AttentionKernel kernel = AttentionKernel::kFlash) {
  RuntimeTraits runtime;
  runtime.attention_kernel = kernel;
  LayerOperations operations;
  ListOperations(layer, Precision::kBf16, runtime, shape, 1.0, operations);
  return operations;
}

Strategy Tensor(int degree, bool sequence_parallel = false) {
  Strategy strategy;
  strategy.tensor_parallel_degree = degree;
  strategy.sequence_parallel = sequence_parallel;
  return strategy;
}

LayerFootprint FootprintAt(const LayerDefinition& layer, const Strategy& strategy) {
  return FootprintOf(layer, Precision::kBf16, *FindRuntime("megatron-core"), strategy, false);
}

PlanningProblem ProblemOf(const LayerDefinition& layer) {
  return EstimatedProblemOf(layer, /*layer_count=*/2, /*device_count=*/8, /*global_batch_size=*/8);
}

TEST(LayerStructures, DoTheOperationsOfTheirDefinition) {
  for (const LayerDefinition& layer : LayersOfAllStructures()) {
    const double wanted = ForwardFlopsPerSample(layer, layer.sequence_length);
    EXPECT_NEAR(OperationsOf(layer).forward.Flops(), wanted, 1e-12 * wanted)
        << layer.layer_definition_id;
  }
}

TEST(LayerStructures, TensorParallelRanksWithTheirOwnTokensShareAllProducts) {
  for (const LayerDefinition& layer : LayersOfAllStructures()) {
    if (layer.kind == LayerKind::kOpaque) continue;
    const LayerOperations whole = OperationsOf(layer);
    const LayerOperations part = OperationsOf(layer, {8, 1, 1, true});
    EXPECT_NEAR(8.0 * part.forward.Flops() / whole.forward.Flops(), 1.0, 1e-12)
        << layer.layer_definition_id;
    EXPECT_NEAR(8.0 * part.backward.Flops() / whole.backward.Flops(), 1.0, 1e-12)
        << layer.layer_definition_id;
  }
}

// Without sequence parallelism every rank makes the compressed vectors of all tokens.
TEST(LatentAttention, MapsToCompressedVectorsAreDoneByEveryRank) {
  const LayerDefinition layer = LatentLayer();
  const double whole = OperationsOf(layer).forward.Flops();
  const double part = OperationsOf(layer, {8, 1, 1, false}).forward.Flops();
  const double copied = 2.0 * 4096 * 7168 * (1536 + 512 + 64);
  EXPECT_NEAR((8.0 * part - whole) / (7.0 * copied), 1.0, 1e-9);
}

// 4096 tokens: half of their square, 128 heads of 192 and 128, two operations each.
TEST(LatentAttention, ScoresAreAsWideAsKeysAndTheirProductAsValues) {
  const LayerDefinition layer = LatentLayer();
  const double core = 4096.0 * 4096.0 / 2 * 128 * (192 + 128) * 2;
  EXPECT_DOUBLE_EQ(AttentionFlopsPerSample(layer, 4096), core);
  for (const AttentionKernel kernel : {AttentionKernel::kFlash, AttentionKernel::kUnfused}) {
    const double all = OperationsOf(layer, {}, kernel).forward.Flops();
    const double scored = kernel == AttentionKernel::kUnfused ? 2.0 * core : core;
    EXPECT_NEAR(all - 2.0 * 4096 *
                          static_cast<double>(MixerElements(layer).matrices.Sum() +
                                              FeedForwardElementsOf(layer).dense),
                scored, 1e-9 * scored);
  }
}

// Bytes for 4096 tokens by hand: input and projection input; 2 (1536 + 512) + 64 compressed;
// 128 heads of 192, 192, 128 and 128; statistics of 4 bytes a head.
TEST(LatentAttention, KeepsCompressedVectorsAndWholeHeads) {
  RuntimeTraits runtime = *FindRuntime("megatron-core");
  runtime.hidden_dropout = false;
  runtime.attention_output_copied = false;
  const LayerDefinition layer = LatentLayer();
  const double s = 4096.0;
  const double attention = 2 * s * 2 * 7168 + 2 * s * (2 * (1536 + 512) + 64) +
                           2 * s * 128 * (192 + 192 + 128 + 128) + 4 * s * 128;
  const double feed_forward = 2 * s * 2 * 7168 + 3 * 2 * s * 18432;
  const ActivationBytes bytes = ActivationBytesOf(layer, Precision::kBf16, runtime, Tensor(1));
  EXPECT_DOUBLE_EQ(bytes.Kept(RecomputeLevel::kNone), attention + feed_forward);
  EXPECT_DOUBLE_EQ(bytes.Kept(RecomputeLevel::kFull), 2 * s * 7168);
  // Eight ranks with their own tokens keep an eighth.
  EXPECT_DOUBLE_EQ(ActivationBytesOf(layer, Precision::kBf16, runtime, Tensor(8, true))
                       .Kept(RecomputeLevel::kNone),
                   (attention + feed_forward) / 8);
}

TEST(LatentAttention, RanksCopyTheMapsToCompressedVectorsAndSplitTheRest) {
  const LayerDefinition layer = LatentLayer();
  const int64_t copied = int64_t{7168} * (1536 + 512 + 64) + 1536 + 512 + 2 * 7168;
  const int64_t split = layer.parameter_count - copied;
  for (const int degree : {1, 2, 8, 64}) {
    EXPECT_EQ(FootprintAt(layer, Tensor(degree)).parameter_count, copied + split / degree);
  }
}

// Two ranks exchange 1536 + 512 + 64 elements of a token at the input of attention instead of 7168.
TEST(LatentAttention, RanksExchangeCompressedVectors) {
  const LayerDefinition layer = LatentLayer();
  const PlanningProblem problem = ProblemOf(layer);
  const CostModel costs = Valid(CostModel::Create(problem));
  const FabricTime fabric(problem.hardware(kFirstGroup)->fabric,
                          problem.calibration().Resolve("ampere", problem.topology().cluster()), 8);
  const auto message = [&](Collective collective, double width) {
    return fabric.Time(collective, {8, 1}, 4096.0 * width * 2);
  };
  const auto priced = [&](bool sequence_parallel) {
    return costs.group(kFirstGroup)
        .CostOfLayer(1, Tensor(8, sequence_parallel), 1, 1)
        .time[TimeItemKind::kTensorParallel];
  };
  const double stream = 7168;
  const double narrow = 1536 + 512 + 64;
  const Seconds all_reduces =
      message(Collective::kAllReduce, stream) * 3.0 + message(Collective::kAllReduce, narrow);
  EXPECT_NEAR(priced(false) / all_reduces, 1.0, 1e-9);
  // The feed-forward part gathers three times and scatters twice; attention gathers its compressed
  // vectors twice and the gradient of its output once.
  const Seconds pieces = message(Collective::kAllGather, stream) * 4.0 +
                         message(Collective::kReduceScatter, stream) * 3.0 +
                         message(Collective::kAllGather, narrow) * 2.0 +
                         message(Collective::kReduceScatter, narrow);
  EXPECT_NEAR(priced(true) / pieces, 1.0, 1e-9);
}

TEST(AttentionWindow, AsLongAsTheSequenceIsNoWindow) {
  const LayerDefinition plain = WindowLayer(4096, 0);
  for (const int window : {4096, 5000}) {
    const LayerDefinition layer = WindowLayer(4096, window);
    const LayerOperations with = OperationsOf(layer);
    const LayerOperations without = OperationsOf(plain);
    EXPECT_EQ(with.forward.Flops(), without.forward.Flops());
    EXPECT_EQ(with.backward.Flops(), without.backward.Flops());
    const CostModel costs = Valid(CostModel::Create(ProblemOf(layer)));
    const CostModel others = Valid(CostModel::Create(ProblemOf(plain)));
    for (const Strategy& strategy : {Tensor(1), Tensor(8, true)}) {
      EXPECT_EQ(costs.group(kFirstGroup).CostOfLayer(1, strategy, 1, 1).forward,
                others.group(kFirstGroup).CostOfLayer(1, strategy, 1, 1).forward);
    }
  }
}

TEST(AttentionWindow, LongerOnesNeverTakeLess) {
  const AnalyticTimes full = AnalyticLayer(WindowLayer(4096, 0), Precision::kBf16, RuntimeTraits(),
                                           TestDevice(), Coefficients())
                                 .Times({}, 1.0);
  double flops = 0.0;
  Seconds time;
  for (int window = 16; window <= 4096; window += 16) {
    const LayerDefinition layer = WindowLayer(4096, window);
    const double now = OperationsOf(layer).forward.Flops();
    const AnalyticTimes times =
        AnalyticLayer(layer, Precision::kBf16, RuntimeTraits(), TestDevice(), Coefficients())
            .Times({}, 1.0);
    EXPECT_GT(now, flops);
    EXPECT_GE(times.forward.device, time) << window;
    EXPECT_LE(times.forward.device, full.forward.device);
    flops = now;
    time = times.forward.device;
  }
}

// A window of an eighth: w s - w^2 / 2 of s^2 / 2 pairs.
TEST(AttentionWindow, OfFusedAttentionComputesItsPairsAndUnfusedAll) {
  const LayerDefinition layer = WindowLayer(4096, 512);
  const LayerDefinition plain = WindowLayer(4096, 0);
  const double saved = 2.0 * 2.0 * 4096 * (4096.0 * 4096.0 / 2 - (512.0 * 4096 - 512.0 * 512 / 2));
  EXPECT_NEAR(OperationsOf(plain).forward.Flops() - OperationsOf(layer).forward.Flops(), saved,
              1e-9 * saved);
  EXPECT_EQ(OperationsOf(plain, {}, AttentionKernel::kUnfused).forward.Flops(),
            OperationsOf(layer, {}, AttentionKernel::kUnfused).forward.Flops());
}

TEST(AttentionWindow, ChangesNothingThatIsKept) {
  const RuntimeTraits runtime = *FindRuntime("megatron-core");
  for (const Strategy& strategy : {Tensor(1), Tensor(4, true)}) {
    const ActivationTensors with =
        ActivationTensorsOf(WindowLayer(4096, 512), Precision::kBf16, runtime, strategy);
    const ActivationTensors without =
        ActivationTensorsOf(WindowLayer(4096, 0), Precision::kBf16, runtime, strategy);
    EXPECT_EQ(with.Sum().Kept(RecomputeLevel::kNone), without.Sum().Kept(RecomputeLevel::kNone));
  }
}

// Ranks that share tokens or heads have equal shares of the pairs. Rings send all keys and values
// around, as without a window.
TEST(AttentionWindow, IsSharedByContextParallelRanksAndSavesNoMessage) {
  const LayerDefinition layer = WindowLayer(4096, 512);
  const double whole = OperationsOf(layer).forward.Flops();
  for (const ContextKind kind : {ContextKind::kRing, ContextKind::kUlysses}) {
    EXPECT_NEAR(4.0 * OperationsOf(layer, {1, 4, 1, false, kind}).forward.Flops() / whole, 1.0,
                1e-12);
    const auto exchange = [kind](const LayerDefinition& definition) {
      // Attention hides nothing if it takes no time.
      const CostModel costs = Valid(CostModel::Create(ProblemOf(definition)));
      Strategy strategy;
      strategy.context_parallel_degree = 8;
      strategy.context_kind = kind;
      return costs.group(kFirstGroup)
          .CostOfLayer(1, strategy, 1, 1)
          .time[TimeItemKind::kContextParallel];
    };
    const Seconds with = exchange(layer);
    const Seconds without = exchange(WindowLayer(4096, 0));
    if (kind == ContextKind::kUlysses) {
      EXPECT_EQ(with, without);
    } else {
      EXPECT_GE(with, without);
    }
  }
}

// Mamba-2, 256 tokens a chunk: 2 256 (8 128 + 8192) + 4 128 8192 operations a token in products,
// and a convolution of 4 over 10240 channels.
TEST(StateSpaceCosts, OfTheDualFormAreItsFourProducts) {
  const ScanFlops flops = ScanFlopsPerToken(*DualLayer().state_space, 4096);
  EXPECT_DOUBLE_EQ(flops.products, 2.0 * 256 * (1024 + 8192) + 4.0 * 128 * 8192);
  EXPECT_DOUBLE_EQ(flops.vectors, 2.0 * 4 * 10240);
  // A sample shorter than a chunk is one.
  EXPECT_DOUBLE_EQ(ScanFlopsPerToken(*DualLayer().state_space, 64).products,
                   2.0 * 64 * (1024 + 8192) + 4.0 * 128 * 8192);
}

TEST(StateSpaceCosts, GrowInProportionToTheSequence) {
  for (const auto& make : {SelectiveLayer, DualLayer, GatedDeltaLayer}) {
    EXPECT_NEAR(ForwardFlopsPerSample(make(8192), 8192) / ForwardFlopsPerSample(make(4096), 4096),
                2.0, 1e-12);
  }
}

// Bytes of 4096 tokens: input and projection input of 4096; 2 x 8192 + 2 x 1024 + 128 projected;
// the scan's output and the last product's input.
TEST(StateSpaceCosts, KeepWhatTheirKernelsKeep) {
  const ActivationBytes bytes =
      ActivationBytesOf(DualLayer(), Precision::kBf16, *FindRuntime("megatron-core"), Tensor(1));
  EXPECT_GE(bytes.Kept(RecomputeLevel::kNone),
            2.0 * 4096 * (2 * 4096 + (2 * 8192 + 2 * 1024 + 128) + 2 * 8192));
  EXPECT_EQ(bytes.Kept(RecomputeLevel::kNone), bytes.Kept(RecomputeLevel::kSelective));
  EXPECT_EQ(bytes.Kept(RecomputeLevel::kFull), 2.0 * 4096 * 4096);
}

TEST(StateSpaceCosts, RanksSplitAllButNorms) {
  for (const LayerDefinition& layer : {SelectiveLayer(), DualLayer()}) {
    const int64_t norms = int64_t{NormCount(layer)} * layer.hidden_size;
    EXPECT_EQ(FootprintAt(layer, Tensor(8)).parameter_count,
              norms + (layer.parameter_count - norms) / 8);
  }
}

// The channels of the selective form are summed into 256 + 2 x 16 numbers a token, both ways.
TEST(StateSpaceCosts, OfTheSelectiveFormSumUpTimeStepsAndStates) {
  const LayerDefinition layer = SelectiveLayer();
  const PlanningProblem problem = ProblemOf(layer);
  const CostModel costs = Valid(CostModel::Create(problem));
  const FabricTime fabric(problem.hardware(kFirstGroup)->fabric,
                          problem.calibration().Resolve("ampere", problem.topology().cluster()), 8);
  const auto all_reduce = [&](double width) {
    return fabric.Time(Collective::kAllReduce, {8, 1}, 4096.0 * width * 2);
  };
  const Seconds priced =
      costs.group(kFirstGroup).CostOfLayer(1, Tensor(8), 1, 1).time[TimeItemKind::kTensorParallel];
  EXPECT_NEAR(priced / (all_reduce(4096) * 4.0 + all_reduce(256 + 32) * 2.0), 1.0, 1e-9);
}

TEST(StateSpaceCosts, TokensAreNotShared) {
  for (const LayerDefinition& layer : {DualLayer(), SelectiveLayer()}) {
    const PlanningProblem problem = ProblemOf(layer);
    Strategy strategy;
    strategy.context_parallel_degree = 8;
    const Plan plan = PlanOf(problem, {.strategy = strategy});
    EXPECT_THAT(CheckPlanStructure(problem, plan).ToString(), HasSubstr("context_parallel_degree"));
  }
}

TEST(FurtherTokens, CostTheHeadOnceMoreForEach) {
  LayerDefinition head;
  head.layer_definition_id = "head";
  head.kind = LayerKind::kHead;
  head.hidden_size = 4096;
  head.sequence_length = 1024;
  head.vocabulary_size = 32000;
  head = Valid(LayerDefinition::Create(head, "head"));
  LayerDefinition further = head;
  further.further_token_count = 2;
  EXPECT_DOUBLE_EQ(OperationsOf(further).forward.Flops(), 3.0 * OperationsOf(head).forward.Flops());
  const RuntimeTraits runtime = *FindRuntime("megatron-core");
  const ActivationBytes one = ActivationBytesOf(head, Precision::kBf16, runtime, Tensor(1));
  const ActivationBytes three = ActivationBytesOf(further, Precision::kBf16, runtime, Tensor(1));
  EXPECT_DOUBLE_EQ(three.logits, 3.0 * one.logits);
  EXPECT_EQ(further.parameter_count, head.parameter_count);
}

TEST(FurtherTokens, ALayerBehindAnotherStageHasATableOfItsOwn) {
  const RuntimeTraits runtime = *FindRuntime("parplan");
  const LayerDefinition layer = PredictionLayer();
  const auto count = [&](bool copies) {
    return FootprintOf(layer, Precision::kBf16, runtime, Tensor(8), copies).parameter_count;
  };
  EXPECT_EQ(count(true) - count(false),
            int64_t{7168} * PaddedVocabularySize(129280, runtime, 8) / 8);
}

TEST(OpaqueLayers, HaveTheSizesGivenForEachDegree) {
  const LayerDefinition layer = OpaqueSample();
  const LayerFootprint one = FootprintAt(layer, Tensor(1));
  EXPECT_EQ(one.parameter_count, 1000);
  EXPECT_EQ(one.activations.Kept(RecomputeLevel::kNone), static_cast<double>(1 << 30));
  EXPECT_EQ(one.activations.Kept(RecomputeLevel::kFull), 2.0 * 4096 * 64);
  const LayerFootprint two = FootprintAt(layer, Tensor(2));
  EXPECT_EQ(two.parameter_count, 600);
  EXPECT_EQ(two.activations.Kept(RecomputeLevel::kNone), static_cast<double>(3 << 28));
}

TEST(OpaqueLayers, AreNotPricedWithoutAMeasurement) {
  EXPECT_THAT(CostModel::Create(ProblemOf(OpaqueSample())).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("layer `opaque` is opaque and its time at tensor_parallel_degree "
                                 "1 can only be measured")));
}

// Measured with one and with two ranks: 10 and 5 ms forward, twice as much backward.
TEST(OpaqueLayers, ArePlannedByTheirMeasuredTimes) {
  const LayerDefinition layer = OpaqueSample();
  const PlanningProblem base = ProblemOf(layer);
  ProfileSnapshot::Content content;
  content.digest = "measured";
  content.device_kind = "a100-sxm-80gb";
  content.devices_per_node = 8;
  MeasuredLayer& measured = content.layers.emplace_back();
  measured.definition = layer;
  for (const int degree : {1, 2}) {
    measured.timings.push_back({.tensor_parallel_degree = degree,
                                .micro_batch_size = 1,
                                .sequence_length = layer.sequence_length,
                                .forward = Seconds::Of(0.010 / degree),
                                .backward = Seconds::Of(0.020 / degree)});
  }
  Knowledge knowledge;
  knowledge.groups.emplace_back();
  knowledge.groups[0].profile =
      std::make_shared<const ProfileSnapshot>(Valid(ProfileSnapshot::Create(content)));
  knowledge.groups[0].hardware = std::make_shared<const Hardware>(EightA100Nodes());
  const PlanningProblem problem = Valid(PlanningProblem::Create(
      std::make_shared<const ModelSpec>(base.model()),
      std::make_shared<const Topology>(base.topology()), knowledge, 8, base.rules()));
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
  const GroupCosts& group = costs.group(kFirstGroup);
  const LayerCost one = group.CostOfLayer(1, Tensor(1), 1, 1);
  EXPECT_NEAR(one.time[TimeItemKind::kForwardCompute].value(), 0.010, 1e-9);
  EXPECT_EQ(one.time[TimeItemKind::kTensorParallel], Seconds());
  const LayerCost two = group.CostOfLayer(1, Tensor(2), 1, 1);
  EXPECT_NEAR(two.time[TimeItemKind::kBackwardCompute].value(), 0.010, 1e-9);
  const FabricTime fabric(problem.hardware(kFirstGroup)->fabric,
                          problem.calibration().Resolve("ampere", problem.topology().cluster()), 8);
  EXPECT_NEAR(two.time[TimeItemKind::kTensorParallel] /
                  (fabric.Time(Collective::kAllReduce, {2, 1}, 1 << 20) * 3.0),
              1.0, 1e-9);
  // Recomputation is the forward pass once more, of whatever it does.
  Strategy recomputes = Tensor(1);
  recomputes.recompute_level = RecomputeLevel::kFull;
  EXPECT_NEAR(group.CostOfLayer(1, recomputes, 1, 1).time[TimeItemKind::kRecompute].value(), 0.010,
              1e-9);

  ASSERT_OK_AND_ASSIGN(const PlanningResult result, FindPlan(problem, "exact"));
  const auto* const found = std::get_if<PlanFound>(&result);
  ASSERT_NE(found, nullptr);
  EXPECT_OK(CheckPlan(problem, found->plan, found->prediction));
  for (const StagePlan& stage : found->plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      if (problem.model().layer(run.first_layer_index).kind != LayerKind::kOpaque) continue;
      EXPECT_LE(run.strategy.tensor_parallel_degree, 2);
      EXPECT_EQ(run.strategy.context_parallel_degree, 1);
      EXPECT_FALSE(run.strategy.sequence_parallel);
    }
  }
}

}  // namespace
}  // namespace parplan
