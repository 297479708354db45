#include "planner/cost/layer_operations.h"

#include "gtest/gtest.h"
#include "planner/model/layer_matrices.h"
#include "tests/planner/cost/elementwise_bytes.h"
#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

RuntimeTraits Runtime(AttentionKernel kernel) {
  RuntimeTraits runtime;
  runtime.attention_kernel = kernel;
  return runtime;
}

LayerOperations List(const LayerDefinition& layer, const RuntimeTraits& runtime,
                     const LayerShape& shape = {}, double samples = 1.0) {
  LayerOperations operations;
  ListOperations(layer, Precision::kBf16, runtime, shape, samples, operations);
  return operations;
}

LayerDefinition LlamaLayer() {
  LayerDefinition layer = TestDecoder(4096, 32, 4096);
  layer.parameter_count = 0;
  layer.key_value_head_count = 8;
  layer.feed_forward_kind = FeedForwardKind::kSwiglu;
  layer.feed_forward_size = 14336;
  return *LayerDefinition::Create(layer, "layer");
}

LayerDefinition OfKind(LayerKind kind) {
  LayerDefinition layer = TestDecoder(2048, 16, 1024);
  layer.kind = kind;
  layer.parameter_count = 0;
  if (!IsTransformer(kind)) {
    layer = LayerDefinition();
    layer.layer_definition_id = "table";
    layer.kind = kind;
    layer.hidden_size = 2048;
    layer.sequence_length = 1024;
    layer.vocabulary_size = 51200;
  }
  return *LayerDefinition::Create(layer, "layer");
}

TEST(LayerOperations, FusedAttentionDoesTheModelsOperations) {
  for (const LayerDefinition& layer :
       {TestDecoder(1024, 16, 1024), LlamaLayer(), OfKind(LayerKind::kEncoder),
        OfKind(LayerKind::kCrossDecoder), OfKind(LayerKind::kHead),
        OfKind(LayerKind::kPatchEmbedding), OfKind(LayerKind::kEmbedding)}) {
    const LayerOperations operations = List(layer, Runtime(AttentionKernel::kFlash), {}, 3.0);
    EXPECT_DOUBLE_EQ(operations.forward.Flops(),
                     3.0 * ForwardFlopsPerSample(layer, layer.sequence_length));
  }
}

TEST(LayerOperations, UnfusedAttentionDoesTheClosedForm) {
  // Narayanan et al., SC'21, appendix: 24 b s h^2 + 4 b s^2 h forward, twice as much
  // backward.
  const double b = 2.0;
  const double s = 1024.0;
  const double h = 3072.0;
  const LayerOperations operations =
      List(TestDecoder(3072, 24, 1024), Runtime(AttentionKernel::kUnfused), {}, b);
  const double closed = 24.0 * b * s * h * h + 4.0 * b * s * s * h;
  EXPECT_DOUBLE_EQ(operations.forward.Flops(), closed);
  EXPECT_DOUBLE_EQ(operations.backward.Flops(), 2.0 * closed);
  EXPECT_DOUBLE_EQ(operations.selective_recompute.Flops(), 4.0 * b * s * s * h);
}

// Half of 4 s^2 h with a causal mask. Programs whose policy keeps the output of fused attention,
// and Megatron-LM before Core, repeat none of it.
TEST(LayerOperations, SelectiveRecomputationRunsFusedAttentionAgain) {
  const LayerDefinition layer = TestDecoder(1024, 16, 1024);
  const LayerOperations operations = List(layer, Runtime(AttentionKernel::kFlash));
  EXPECT_DOUBLE_EQ(operations.selective_recompute.Flops(), 2.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(operations.selective_recompute.size(), 1);
  RuntimeTraits legacy = *FindRuntime("megatron-2022");
  legacy.attention_kernel = AttentionKernel::kFlash;
  EXPECT_EQ(List(layer, legacy).selective_recompute.size(), 0);
  RuntimeTraits by_operators = *FindRuntime("torchtitan");
  by_operators.selective_recompute = SelectiveRecompute::kOperators;
  for (const LayerOperation& operation : List(layer, by_operators).selective_recompute) {
    EXPECT_NE(operation.kind, OperationKind::kFusedAttention);
  }
}

TEST(LayerOperations, TensorAndContextParallelismDivideTheProducts) {
  for (const AttentionKernel kernel : {AttentionKernel::kFlash, AttentionKernel::kUnfused}) {
    for (const LayerDefinition& layer :
         {TestDecoder(2048, 16, 2048), LlamaLayer(), OfKind(LayerKind::kHead)}) {
      const LayerOperations whole = List(layer, Runtime(kernel));
      for (const LayerShape& shape : {LayerShape{8, 1, 1, false}, LayerShape{8, 1, 1, true},
                                      LayerShape{1, 8, 1, false}, LayerShape{2, 4, 1, true}}) {
        const LayerOperations part = List(layer, Runtime(kernel), shape);
        EXPECT_DOUBLE_EQ(8.0 * part.forward.Flops(), whole.forward.Flops());
        EXPECT_DOUBLE_EQ(8.0 * part.backward.Flops(), whole.backward.Flops());
      }
    }
  }
}

TEST(LayerOperations, SequenceParallelismMovesFewerBytes) {
  const LayerDefinition layer = TestDecoder(2048, 16, 2048);
  RuntimeTraits runtime = Runtime(AttentionKernel::kFlash);
  runtime.hidden_dropout = true;
  const LayerOperations without = List(layer, runtime, {4, 1, 1, false});
  const LayerOperations with = List(layer, runtime, {4, 1, 1, true});
  // Two norms of 2 elements and two additions of 3 and a mask, on a quarter.
  const double residual = 2048.0 * 2048.0;
  EXPECT_DOUBLE_EQ(ElementwiseBytes(without.forward) - ElementwiseBytes(with.forward),
                   0.75 * residual * (2.0 * 2.0 * 2.0 + 2.0 * (3.0 * 2.0 + 1.0)));
  EXPECT_LT(ElementwiseBytes(with.backward), ElementwiseBytes(without.backward));
}

TEST(LayerOperations, UnfusedAttentionMovesTheScores) {
  RuntimeTraits runtime = Runtime(AttentionKernel::kUnfused);
  const LayerDefinition layer = TestDecoder(1024, 16, 2048);
  const double scores = 16.0 * 2048.0 * 2048.0;
  const double softmax = ElementwiseBytes(List(layer, runtime).selective_recompute);
  EXPECT_DOUBLE_EQ(softmax, 4.0 * scores);
  runtime.attention_dropout = true;
  EXPECT_DOUBLE_EQ(ElementwiseBytes(List(layer, runtime).selective_recompute), 9.0 * scores);
  // Scaled 4, masked 4, widened 6, softmax 8, narrowed 6.
  runtime.fused_softmax = false;
  EXPECT_DOUBLE_EQ(ElementwiseBytes(List(layer, runtime).selective_recompute), 33.0 * scores);
}

TEST(LayerOperations, FusedSoftmaxTakesFoursOfHeadsOnly) {
  const RuntimeTraits fused = Runtime(AttentionKernel::kUnfused);
  RuntimeTraits split = fused;
  split.fused_softmax = false;
  const LayerDefinition layer = TestDecoder(1024, 16, 1024);
  const auto bytes = [&layer](const RuntimeTraits& runtime, int degree, double samples) {
    return ElementwiseBytes(
        List(layer, runtime, {degree, 1, 1, false}, samples).selective_recompute);
  };
  // Two heads of one sample, then of two.
  EXPECT_EQ(bytes(fused, 8, 1.0), bytes(split, 8, 1.0));
  EXPECT_LT(bytes(fused, 8, 2.0), bytes(split, 8, 2.0));
  EXPECT_LT(bytes(fused, 4, 1.0), bytes(split, 4, 1.0));
}

TEST(LayerOperations, FusionSavesBytesAndLaunches) {
  RuntimeTraits fused = Runtime(AttentionKernel::kUnfused);
  RuntimeTraits split = fused;
  split.fused_elementwise = false;
  split.fused_softmax = false;
  const LayerDefinition layer = TestDecoder(1024, 16, 1024);
  EXPECT_LT(ElementwiseBytes(List(layer, fused).forward),
            ElementwiseBytes(List(layer, split).forward));
  EXPECT_LT(List(layer, fused).forward.LaunchCount(), List(layer, split).forward.LaunchCount());
  EXPECT_LT(List(layer, fused).backward.LaunchCount(), List(layer, split).backward.LaunchCount());

  fused = Runtime(AttentionKernel::kFlash);
  split = fused;
  split.fused_elementwise = false;
  EXPECT_LT(ElementwiseBytes(List(LlamaLayer(), fused).forward),
            ElementwiseBytes(List(LlamaLayer(), split).forward));
  EXPECT_LT(ElementwiseBytes(List(LlamaLayer(), fused).backward),
            ElementwiseBytes(List(LlamaLayer(), split).backward));
  EXPECT_EQ(List(LlamaLayer(), fused).forward.Flops(), List(LlamaLayer(), split).forward.Flops());

  split = fused;
  split.fused_cross_entropy = false;
  const LayerDefinition head = OfKind(LayerKind::kHead);
  EXPECT_LT(ElementwiseBytes(List(head, fused).forward),
            ElementwiseBytes(List(head, split).forward));

  split = fused;
  split.fused_gradient_accumulation = false;
  fused.fused_gradient_accumulation = true;
  EXPECT_LT(ElementwiseBytes(List(layer, fused).backward),
            ElementwiseBytes(List(layer, split).backward));
  EXPECT_LT(List(layer, fused).backward.LaunchCount(), List(layer, split).backward.LaunchCount());
}

TEST(LayerOperations, TensorParallelCollectivesAreLaunched) {
  const LayerDefinition layer = TestDecoder(1024, 16, 1024);
  const RuntimeTraits runtime = Runtime(AttentionKernel::kFlash);
  const LayerOperations alone = List(layer, runtime);
  const LayerOperations shared = List(layer, runtime, {2, 1, 1, false});
  EXPECT_GT(shared.forward.LaunchCount(), alone.forward.LaunchCount());
  EXPECT_GT(shared.backward.LaunchCount(), alone.backward.LaunchCount());
}

TEST(LayerOperations, ExpertsWorkOnTheirShareOfTokens) {
  LayerDefinition layer = TestDecoder(1024, 16, 1024);
  layer.feed_forward_kind = FeedForwardKind::kSwiglu;
  layer.expert_count = 8;
  layer.experts_per_token = 2;
  layer.expert_feed_forward_size = 2048;
  const RuntimeTraits runtime = Runtime(AttentionKernel::kFlash);
  const double tokens = 1024.0;
  const double attention = 2.0 * tokens * 4.0 * 1024.0 * 1024.0 + 2.0 * tokens * tokens * 1024.0;
  const double router = 2.0 * tokens * 1024.0 * 8.0;
  const double experts = 2.0 * 2.0 * tokens * 3.0 * 1024.0 * 2048.0;
  EXPECT_DOUBLE_EQ(List(layer, runtime).forward.Flops(), attention + router + experts);
  // Spread over ranks, each does as much: fewer experts, more tokens for each.
  EXPECT_DOUBLE_EQ(List(layer, runtime, {1, 1, 4, false}).forward.Flops(),
                   attention + router + experts);
  layer.shared_expert_feed_forward_size = 2048;
  EXPECT_DOUBLE_EQ(List(layer, runtime).forward.Flops(), attention + router + 1.5 * experts);
}

TEST(LayerOperations, GrowsInProportionToSamples) {
  const LayerDefinition layer = TestDecoder(1024, 16, 1024);
  const RuntimeTraits runtime = Runtime(AttentionKernel::kUnfused);
  const LayerOperations one = List(layer, runtime, {}, 1.0);
  const LayerOperations half = List(layer, runtime, {}, 0.5);
  EXPECT_DOUBLE_EQ(one.forward.Flops(), 2.0 * half.forward.Flops());
  EXPECT_DOUBLE_EQ(ElementwiseBytes(one.forward), 2.0 * ElementwiseBytes(half.forward));
  // Gradients are accumulated once however many samples there are.
  EXPECT_LT(ElementwiseBytes(one.backward), 2.0 * ElementwiseBytes(half.backward));
}

LayerOperations ListAt(Precision precision, const LayerDefinition& layer,
                       const LayerShape& shape = {}) {
  LayerOperations operations;
  ListOperations(layer, precision, RuntimeTraits(), shape, 1.0, operations);
  return operations;
}

int QuantisedCount(const OperationList& list) {
  int count = 0;
  for (const LayerOperation& operation : list) count += operation.product.is_quantised ? 1 : 0;
  return count;
}

// Four linear maps: one product forward and two backward of each. The operations stay the same.
TEST(LayerOperations, RecipesQuantiseLinearMapsOnly) {
  const LayerDefinition decoder = LlamaLayer();
  const LayerOperations wide = ListAt(Precision::kBf16, decoder);
  const LayerOperations narrow = ListAt(Precision::kMxfp8, decoder);
  EXPECT_EQ(QuantisedCount(wide.forward) + QuantisedCount(wide.backward), 0);
  EXPECT_EQ(QuantisedCount(narrow.forward), 4);
  EXPECT_EQ(QuantisedCount(narrow.backward), 8);
  EXPECT_EQ(narrow.forward.Flops(), wide.forward.Flops());
  LayerDefinition first = decoder;
  first.wide_products = true;
  EXPECT_EQ(QuantisedCount(ListAt(Precision::kMxfp8, first).forward), 0);
  const LayerDefinition head = OfKind(LayerKind::kHead);
  EXPECT_EQ(QuantisedCount(ListAt(Precision::kMxfp8, head).forward), 0);
  LayerDefinition experts = LlamaLayer();
  experts.parameter_count = 0;
  experts.expert_count = 8;
  experts.experts_per_token = 2;
  experts.expert_feed_forward_size = 1024;
  experts.feed_forward_size = 0;
  experts = *LayerDefinition::Create(experts, "layer");
  // The router keeps 16 bits.
  EXPECT_EQ(QuantisedCount(ListAt(Precision::kMxfp8, experts).forward), 4);
}

// 4096 tokens through 4096 -> 6144, 4096 -> 4096, 4096 -> 28672 and 14336 -> 4096 of 16 bits: each
// input is read once and written twice in 33/32 bytes, so 4096 * 26624 * (2 + 2 * 33/32) bytes in
// four kernels. A scale of the tensor's own largest value reads it twice, in eight kernels.
TEST(LayerOperations, QuantisationIsAPassOverEveryOperand) {
  const LayerDefinition decoder = LlamaLayer();
  const OperationList wide = ListAt(Precision::kBf16, decoder).forward;
  const OperationList block = ListAt(Precision::kMxfp8, decoder).forward;
  const OperationList current = ListAt(Precision::kFp8Current, decoder).forward;
  const double elements = 4096.0 * (3.0 * 4096.0 + 14336.0);
  EXPECT_NEAR(ElementwiseBytes(block) - ElementwiseBytes(wide), elements * (2.0 + 33.0 / 16.0),
              1.0);
  EXPECT_NEAR(ElementwiseBytes(current) - ElementwiseBytes(wide), elements * (4.0 + 2.0), 1.0);
  EXPECT_EQ(block.LaunchCount() - wide.LaunchCount(), 4);
  EXPECT_EQ(current.LaunchCount() - wide.LaunchCount(), 8);
  // One copy is written where the device reads it in both orders.
  LayerOperations one;
  ListOperations(decoder, Precision::kFp8Current, RuntimeTraits(), LayerShape(), 1.0, one, 1);
  EXPECT_NEAR(ElementwiseBytes(current) - ElementwiseBytes(one.forward), elements, 1.0);
  EXPECT_EQ(one.forward.LaunchCount(), current.LaunchCount());
}

TEST(LayerOperations, MoreTokensForTheBusiestExpertsAreMoreWork) {
  LayerDefinition layer = LlamaLayer();
  layer.parameter_count = 0;
  layer.expert_count = 8;
  layer.experts_per_token = 2;
  layer.expert_feed_forward_size = 1024;
  layer.feed_forward_size = 0;
  layer = *LayerDefinition::Create(layer, "layer");
  double last = 0.0;
  for (const double load : {1.0, 1.1, 1.5, 3.0}) {
    LayerShape shape;
    shape.expert_parallel_degree = 4;
    shape.expert_load = load;
    const double flops = ListAt(Precision::kBf16, layer, shape).forward.Flops();
    EXPECT_GT(flops, last);
    last = flops;
  }
}

// Backwards a frozen layer makes the gradients of its inputs, and none of its weights. Adapters of
// rank r add r / width of the work.
TEST(LayerOperations, FrozenWeightsHaveNoGradients) {
  LayerDefinition layer = LlamaLayer();
  const LayerOperations whole = List(layer, RuntimeTraits());
  layer.frozen = true;
  const LayerOperations frozen = List(layer, RuntimeTraits());
  EXPECT_EQ(frozen.forward.Flops(), whole.forward.Flops());
  const double linear =
      2.0 * 4096.0 *
      static_cast<double>(MixerElements(layer).matrices.Sum() + FeedForwardElementsOf(layer).dense);
  EXPECT_NEAR((whole.backward.Flops() - frozen.backward.Flops()) / linear, 1.0, 1e-9);
  layer.attention_adapter_rank = 16;
  layer.feed_forward_adapter_rank = 16;
  const LayerOperations adapted = List(layer, RuntimeTraits());
  const double adapters = 2.0 * 4096.0 * static_cast<double>(AdapterElements(layer));
  EXPECT_NEAR((adapted.forward.Flops() - frozen.forward.Flops()) / adapters, 1.0, 1e-9);
  EXPECT_NEAR((adapted.backward.Flops() - frozen.backward.Flops()) / adapters, 2.0, 1e-9);
  EXPECT_LT(adapted.backward.Flops(), whole.backward.Flops());
}

}  // namespace
}  // namespace parplan
