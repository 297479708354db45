#include "planner/cost/activation_tensors.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

// The layer of Korthikanti et al.: GELU, four times as wide, dropout everywhere.
RuntimeTraits Unfused() {
  RuntimeTraits traits = *FindRuntime("megatron-2021");
  EXPECT_EQ(traits.attention_kernel, AttentionKernel::kUnfused);
  return traits;
}

RuntimeTraits Flash() {
  RuntimeTraits traits = Unfused();
  traits.attention_kernel = AttentionKernel::kFlash;
  return traits;
}

LayerDefinition Head(int hidden, int vocabulary, int sequence) {
  LayerDefinition layer;
  layer.layer_definition_id = "head";
  layer.kind = LayerKind::kHead;
  layer.hidden_size = hidden;
  layer.vocabulary_size = vocabulary;
  layer.sequence_length = sequence;
  return LayerDefinition::Create(layer, "layer").value();
}

Strategy TensorParallel(int degree, bool sequence_parallel = false) {
  Strategy strategy;
  strategy.tensor_parallel_degree = degree;
  strategy.sequence_parallel = sequence_parallel;
  return strategy;
}

ActivationBytes Of(const LayerDefinition& layer, const RuntimeTraits& traits,
                   const Strategy& strategy) {
  return ActivationBytesOf(layer, Precision::kBf16, traits, strategy);
}

struct Shape {
  int hidden;
  int heads;
  int sequence;
};
// 22B, 175B, 530B and 1T of Korthikanti et al. (docs/papers.md 7).
constexpr Shape kPaperShapes[] = {
    {6144, 64, 2048}, {12288, 96, 2048}, {20480, 128, 2048}, {25600, 160, 2048}};

TEST(ActivationTensors, AddUpToKorthikantisClosedForms) {
  for (const Shape& shape : kPaperShapes) {
    const LayerDefinition layer = TestDecoder(shape.hidden, shape.heads, shape.sequence);
    const double sh = static_cast<double>(shape.sequence) * shape.hidden;
    const double scores = 5.0 * shape.heads * shape.sequence / shape.hidden;
    for (int t : {1, 2, 4, 8}) {
      // Equation 2.
      const ActivationBytes plain = Of(layer, Unfused(), TensorParallel(t));
      EXPECT_DOUBLE_EQ(plain.Kept(RecomputeLevel::kNone), sh * (10.0 + 24.0 / t + scores / t));
      // Equation 4.
      const ActivationBytes sequence = Of(layer, Unfused(), TensorParallel(t, true));
      EXPECT_DOUBLE_EQ(sequence.Kept(RecomputeLevel::kNone), sh / t * (34.0 + scores));
      // Equation 6, and table 2 for full recomputation.
      EXPECT_DOUBLE_EQ(sequence.Kept(RecomputeLevel::kSelective), sh / t * 34.0);
      EXPECT_DOUBLE_EQ(plain.Kept(RecomputeLevel::kFull), 2.0 * sh);
      EXPECT_DOUBLE_EQ(sequence.Kept(RecomputeLevel::kFull), 2.0 * sh / t);
    }
  }
}

TEST(ActivationTensors, OfALayerThatRecomputesMoreAreKeptLess) {
  const ActivationBytes bytes = Of(TestDecoder(4096, 32, 2048), Unfused(), TensorParallel(2));
  EXPECT_LT(bytes.Kept(RecomputeLevel::kFull), bytes.Kept(RecomputeLevel::kSelective));
  EXPECT_LT(bytes.Kept(RecomputeLevel::kSelective), bytes.Kept(RecomputeLevel::kNone));
}

TEST(ActivationTensors, OfFusedAttentionGrowWithTheSequenceAndNotItsSquare) {
  const Strategy strategy = TensorParallel(2);
  const double once =
      Of(TestDecoder(4096, 32, 2048), Flash(), strategy).Kept(RecomputeLevel::kNone);
  const double twice =
      Of(TestDecoder(4096, 32, 4096), Flash(), strategy).Kept(RecomputeLevel::kNone);
  EXPECT_DOUBLE_EQ(twice, 2.0 * once);
  EXPECT_GT(Of(TestDecoder(4096, 32, 4096), Unfused(), strategy).Kept(RecomputeLevel::kNone),
            2.0 * Of(TestDecoder(4096, 32, 2048), Unfused(), strategy).Kept(RecomputeLevel::kNone));
  // 34 s h and a number of 4 bytes for every row of scores.
  EXPECT_DOUBLE_EQ(
      Of(TestDecoder(4096, 32, 2048), Flash(), TensorParallel(1)).Kept(RecomputeLevel::kNone),
      2048.0 * (34.0 * 4096 + 4.0 * 32));
}

TEST(ActivationTensors, AreNeverMoreWithWiderParallelism) {
  for (const RuntimeTraits& traits : {Unfused(), Flash()}) {
    for (const Shape& shape : kPaperShapes) {
      const LayerDefinition layer = TestDecoder(shape.hidden, shape.heads, shape.sequence);
      for (int t : {1, 2, 4}) {
        for (bool sequence_parallel : {false, true}) {
          Strategy narrow = TensorParallel(t, sequence_parallel);
          const ActivationBytes before = Of(layer, traits, narrow);
          Strategy tensor = narrow;
          tensor.tensor_parallel_degree *= 2;
          Strategy context = narrow;
          context.context_parallel_degree *= 2;
          Strategy sequence = narrow;
          sequence.sequence_parallel = true;
          for (const Strategy& wide : {tensor, context, sequence}) {
            const ActivationBytes after = Of(layer, traits, wide);
            EXPECT_LE(after.checkpoint, before.checkpoint);
            EXPECT_LE(after.layer, before.layer);
            EXPECT_LE(after.attention_core, before.attention_core);
            EXPECT_LE(after.backward, before.backward);
          }
        }
      }
    }
  }
}

TEST(ActivationTensors, OfContextParallelRanksAreTheirShareOfTheTokens) {
  Strategy strategy;
  const double whole =
      Of(TestDecoder(4096, 32, 8192), Flash(), strategy).Kept(RecomputeLevel::kNone);
  strategy.context_parallel_degree = 4;
  EXPECT_DOUBLE_EQ(Of(TestDecoder(4096, 32, 8192), Flash(), strategy).Kept(RecomputeLevel::kNone),
                   whole / 4.0);
}

TEST(ActivationTensors, OfFewerKeyValueHeadsLackTheirWidth) {
  LayerDefinition layer = TestDecoder(4096, 32, 2048);
  const double full = Of(layer, Flash(), TensorParallel(1)).Kept(RecomputeLevel::kNone);
  layer.key_value_head_count = 8;
  const double grouped = Of(layer, Flash(), TensorParallel(1)).Kept(RecomputeLevel::kNone);
  // Key and value: 2 bytes each of three quarters of the width.
  EXPECT_DOUBLE_EQ(full - grouped, 2048.0 * 4.0 * 3072.0);
  // No rank has less than one head.
  layer.key_value_head_count = 1;
  double key = 0.0;
  for (const ActivationTensor& tensor :
       ActivationTensorsOf(layer, Precision::kBf16, Flash(), TensorParallel(8))) {
    if (tensor.name == "key") key = tensor.bytes;
  }
  EXPECT_DOUBLE_EQ(key, 2048.0 * 2.0 * 128.0);
}

TEST(ActivationTensors, OfSwigluAreThreeInnerWidthsWhenFusedAndFourOtherwise) {
  LayerDefinition layer = TestDecoder(4096, 32, 2048);
  layer.feed_forward_size = 11008;
  const double gelu = Of(layer, Flash(), TensorParallel(1)).Kept(RecomputeLevel::kNone);
  layer.feed_forward_kind = FeedForwardKind::kSwiglu;
  const double inner = 2048.0 * 2.0 * 11008.0;
  EXPECT_DOUBLE_EQ(Of(layer, Flash(), TensorParallel(1)).Kept(RecomputeLevel::kNone), gelu + inner);
  RuntimeTraits eager = Flash();
  eager.fused_elementwise = false;
  EXPECT_DOUBLE_EQ(Of(layer, eager, TensorParallel(1)).Kept(RecomputeLevel::kNone),
                   gelu + 2.0 * inner);
}

TEST(ActivationTensors, OfRecomputedOperatorsAreOutputsOfEveryOtherProduct) {
  LayerDefinition layer = TestDecoder(4096, 32, 2048);
  layer.feed_forward_kind = FeedForwardKind::kSwiglu;
  layer.feed_forward_size = 14336;
  layer.key_value_head_count = 8;
  RuntimeTraits traits = *FindRuntime("fsdp");
  traits.selective_recompute = SelectiveRecompute::kOperators;
  const ActivationBytes bytes = Of(layer, traits, TensorParallel(1));
  // Input, queries, attention's output, the layer's output; values; the gate; and the
  // softmax statistics.
  const double token = 2.0 * (4.0 * 4096.0 + 1024.0 + 14336.0) + 4.0 * 32.0;
  EXPECT_DOUBLE_EQ(bytes.Kept(RecomputeLevel::kSelective), 2048.0 * token);
  EXPECT_LT(bytes.Kept(RecomputeLevel::kSelective), bytes.Kept(RecomputeLevel::kNone));
}

TEST(ActivationTensors, WithoutDropoutKeepNoMasks) {
  const LayerDefinition layer = TestDecoder(1024, 16, 512);
  RuntimeTraits traits = Unfused();
  traits.hidden_dropout = false;
  traits.attention_dropout = false;
  const double sh = 512.0 * 1024.0;
  // 32 s h instead of 34, and 2 a s^2 instead of 5.
  EXPECT_DOUBLE_EQ(Of(layer, traits, TensorParallel(1)).Kept(RecomputeLevel::kNone),
                   32.0 * sh + 2.0 * 16 * 512 * 512);
}

TEST(ActivationTensors, OfExpertsGrowWithTheExpertsATokenPasses) {
  LayerDefinition layer = TestDecoder(1024, 16, 512);
  const double dense = Of(layer, Flash(), TensorParallel(1)).Kept(RecomputeLevel::kNone);
  layer.expert_count = 8;
  layer.expert_feed_forward_size = layer.feed_forward_size;
  double before = dense;
  for (int experts : {1, 2, 4}) {
    layer.experts_per_token = experts;
    const double bytes = Of(layer, Flash(), TensorParallel(1)).Kept(RecomputeLevel::kNone);
    EXPECT_GT(bytes, before);
    before = bytes;
  }
}

// DeepSeek-V2: 4,096 tokens of 5,120 pass 6 experts of 1,536. One copy of the tokens of a layer is
// 6 * 2 * 4096 * 5120 = 251,658,240 bytes. Programs that weigh what comes back from experts keep
// three, those that weigh inside one, and 6 * 4096 weights of 4 bytes: 503,218,176 bytes less, 1.51
// GB in the three layers with experts of the published runs (docs/cost-model-memory.md).
TEST(ActivationTensors, OfExpertsThatWeighInsideAreOneCopyOfTheTokens) {
  LayerDefinition layer = TestDecoder(5120, 128, 4096);
  layer.expert_count = 160;
  layer.experts_per_token = 6;
  layer.expert_feed_forward_size = 1536;
  layer.feed_forward_kind = FeedForwardKind::kSwiglu;
  RuntimeTraits inside = *FindRuntime("megatron-core");
  ASSERT_FALSE(inside.keeps_exchanged_tokens);
  RuntimeTraits outside = inside;
  outside.keeps_exchanged_tokens = true;
  const auto saved = [&] {
    const double more = Of(layer, outside, Strategy()).Kept(RecomputeLevel::kNone);
    return more - Of(layer, inside, Strategy()).Kept(RecomputeLevel::kNone);
  };
  EXPECT_DOUBLE_EQ(saved(), 503218176.0);
  // What the weights multiply is kept beside the product, unless one kernel makes both.
  const double activation = 6 * 2.0 * 4096 * 1536;
  inside.fused_elementwise = outside.fused_elementwise = false;
  EXPECT_DOUBLE_EQ(saved(), 503218176.0 - activation);
  layer.feed_forward_kind = FeedForwardKind::kGelu;
  EXPECT_DOUBLE_EQ(saved(), 503218176.0 - activation);
  inside.fused_elementwise = outside.fused_elementwise = true;
  EXPECT_DOUBLE_EQ(saved(), 503218176.0 - activation);
}

TEST(ActivationTensors, OfTheHeadAreItsInputsAndLogitsOfThePaddedVocabulary) {
  const RuntimeTraits traits = *FindRuntime("megatron-core");
  ASSERT_EQ(traits.loss_bytes_per_logit, 6);
  const ActivationBytes head = Of(Head(512, 50257, 1024), traits, TensorParallel(2));
  EXPECT_DOUBLE_EQ(head.Kept(RecomputeLevel::kNone), 4.0 * 1024 * 512);
  EXPECT_DOUBLE_EQ(head.logits, 6.0 * 1024 * 50432 / 2);
}

TEST(ActivationTensors, PadTheVocabularyAsMegatronDoes) {
  const RuntimeTraits megatron = *FindRuntime("megatron-core");
  EXPECT_EQ(PaddedVocabularySize(50257, megatron, 1), 50304);
  EXPECT_EQ(PaddedVocabularySize(50257, megatron, 2), 50432);
  EXPECT_EQ(PaddedVocabularySize(50257, megatron, 8), 51200);
  EXPECT_EQ(PaddedVocabularySize(250880, megatron, 8), 250880);
  EXPECT_EQ(PaddedVocabularySize(50257, *FindRuntime("fsdp"), 8), 50257);
}

TEST(ActivationTensors, AreNamedOnceEachWithTheirFormula) {
  LayerDefinition cross = TestDecoder(1024, 16, 512);
  cross.kind = LayerKind::kCrossDecoder;
  LayerDefinition experts = TestDecoder(1024, 16, 512);
  experts.expert_count = 8;
  experts.experts_per_token = 2;
  experts.expert_feed_forward_size = 1024;
  for (const LayerDefinition& layer :
       {TestDecoder(1024, 16, 512), Head(1024, 1000, 512), experts, cross}) {
    const ActivationTensors tensors =
        ActivationTensorsOf(layer, Precision::kFp16, Unfused(), TensorParallel(1));
    std::multiset<std::string> names;
    for (const ActivationTensor& tensor : tensors) {
      names.insert(std::string(tensor.name));
      EXPECT_FALSE(tensor.formula.empty());
      EXPECT_GT(tensor.bytes, 0.0);
    }
    // The second attention block of a cross decoder has the same names again.
    for (const std::string& name : names) {
      EXPECT_LE(names.count(name), layer.kind == LayerKind::kCrossDecoder ? 2u : 1u) << name;
    }
  }
}

}  // namespace
}  // namespace parplan
