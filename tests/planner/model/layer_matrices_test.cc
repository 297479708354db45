#include "planner/model/layer_matrices.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "tests/support/sample_layers.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// DeepSeek-V3: 7168 to 1536 and from there to 128 heads of 192; 7168 to 512 and 64 that all heads
// have in common, and from 512 to 128 heads of 128 and 128; back from 128 values of 128.
TEST(MixerElements, OfLatentAttentionAreThoseOfDeepSeekV3) {
  const PartElements elements = MixerElements(LatentLayer());
  EXPECT_EQ(elements.matrices.copied, int64_t{7168} * (1536 + 512 + 64));
  EXPECT_EQ(elements.matrices.split, int64_t{1536} * 128 * 192 + int64_t{512} * 128 * (128 + 128) +
                                         int64_t{128} * 128 * 7168);
  EXPECT_EQ(elements.vectors.copied, 1536 + 512);
  EXPECT_EQ(elements.Sum(), 187'107'328);
}

// Without compression of queries, and ranks as wide as the stream, the counts are those of products
// worked out by hand.
TEST(MixerElements, OfUncompressedQueriesHaveOneMatrixFromTheStream) {
  LayerDefinition layer = LatentLayer();
  layer.latent_attention->query_rank = 0;
  const PartElements elements = MixerElements(layer);
  EXPECT_EQ(elements.matrices.copied, int64_t{7168} * (512 + 64));
  EXPECT_EQ(elements.matrices.split,
            int64_t{7168} * 128 * 192 + int64_t{512} * 128 * 256 + int64_t{128} * 128 * 7168);
  EXPECT_EQ(elements.vectors.copied, 512);
}

// If the maps to the narrow vectors were the identity, which needs ranks as wide as the stream and
// no common part, the rest would be the matrices of ordinary attention.
TEST(MixerElements, OfLatentAttentionWithNothingCompressedHoldOrdinaryAttention) {
  LayerDefinition layer = LatentLayer();
  layer.head_size = 128;
  layer.latent_attention = LatentAttention{
      .query_rank = 0, .key_value_rank = 7168, .rotary_head_size = 0, .value_head_size = 128};
  LayerDefinition plain = layer;
  plain.latent_attention.reset();
  EXPECT_EQ(MixerElements(layer).matrices.split, MixerElements(plain).matrices.Sum());
  EXPECT_EQ(MixerElements(layer).matrices.copied, int64_t{7168} * 7168);
  EXPECT_EQ(AttentionWidthsOf(layer).query, AttentionWidthsOf(plain).query);
  EXPECT_EQ(AttentionWidthsOf(layer).value, AttentionWidthsOf(plain).value);
}

// Jamba: input and gate 2 x 8192, 8192 to 256 + 2 x 16, 256 to 8192, back to 4096; a convolution of
// 4 with bias, bias of time steps, 16 decays and a skip for each channel.
TEST(MixerElements, OfASelectiveStateSpaceAreThoseOfJamba) {
  const PartElements elements = MixerElements(SelectiveLayer());
  EXPECT_EQ(elements.matrices.split,
            int64_t{4096} * 16384 + 8192 * (256 + 32) + 256 * 8192 + int64_t{8192} * 4096);
  EXPECT_EQ(elements.vectors.split, 8192 * (4 + 1 + 1 + 16 + 1));
  EXPECT_EQ(elements.matrices.copied + elements.vectors.copied, 0);
}

// Mamba-2: 4096 to 2 x 8192 + 2 x 8 x 128 + 128, back from 8192; a convolution over 8192 + 2048
// channels with bias, three numbers for each of 128 heads, a norm of 8192.
TEST(MixerElements, OfADualStateSpaceAreThoseOfMambaTwo) {
  const PartElements elements = MixerElements(DualLayer());
  EXPECT_EQ(elements.matrices.split, int64_t{4096} * (16384 + 2048 + 128) + int64_t{8192} * 4096);
  EXPECT_EQ(elements.vectors.split, 10240 * 5 + 3 * 128 + 8192);
}

// Qwen3-Next: queries and keys of 16 x 128, values and gate of 32 x 128, two numbers a head; a
// convolution of 4 without bias over queries, keys and values; a norm of one head.
TEST(MixerElements, OfAGatedDeltaRuleAreThoseOfQwen3Next) {
  const PartElements elements = MixerElements(GatedDeltaLayer());
  EXPECT_EQ(elements.matrices.split, 2048 * (2 * 2048 + 2 * 4096 + 2 * 32) + int64_t{4096} * 2048);
  EXPECT_EQ(elements.vectors.split, (4096 + 2 * 2048) * 4 + 2 * 32);
  EXPECT_EQ(elements.vectors.copied, 128);
}

TEST(ParameterCount, OfADecoderThatPredictsAddsTheMapOfThePairAndThreeNorms) {
  EXPECT_EQ(PredictionLayer().parameter_count - LatentLayer().parameter_count,
            int64_t{2} * 7168 * 7168 + 3 * 7168);
}

// nanotron's 8B: qkv_proj, o_proj, gate_up_proj, down_proj and two norms in each of 32 layers, a
// table, a norm and a head are 195 tensors.
TEST(ParameterTensorCount, OfALlamaIsThatOfItsModules) {
  LayerDefinition layer;
  layer.hidden_size = 4096;
  layer.attention_head_count = 32;
  layer.feed_forward_size = 14336;
  layer.feed_forward_kind = FeedForwardKind::kSwiglu;
  layer.sequence_length = 4096;
  EXPECT_EQ(ParameterTensorCount(layer), 6);
  LayerDefinition table;
  table.kind = LayerKind::kEmbedding;
  LayerDefinition head;
  head.kind = LayerKind::kHead;
  EXPECT_EQ(
      32 * ParameterTensorCount(layer) + ParameterTensorCount(table) + ParameterTensorCount(head),
      195);
  head.tied_embedding = true;
  EXPECT_EQ(ParameterTensorCount(head), 1);
}

TEST(ParameterCount, OfALayerWithOnePartHasOneNorm) {
  EXPECT_EQ(FeedForwardLayer().parameter_count, int64_t{2} * 4096 * 21504 + 4096);
  EXPECT_EQ(DualLayer().parameter_count, MixerElements(DualLayer()).Sum() + 4096);
}

TEST(AttentionInputWidth, IsThatOfTheCompressedVectors) {
  EXPECT_EQ(AttentionInputWidth(LatentLayer()), 1536 + 512 + 64);
  EXPECT_EQ(AttentionInputWidth(WindowLayer(64, 0)), 4096);
}

TEST(SplitsOverTensorRanks, AsksForTheNumbersThatAreSplit) {
  const struct {
    LayerDefinition layer;
    int degree;
    bool splits;
  } cases[] = {
      {LatentLayer(), 128, true},    {LatentLayer(), 3, false},
      {WindowLayer(64, 8), 8, true}, {WindowLayer(64, 8), 16, false},
      {SelectiveLayer(), 32, true},  {SelectiveLayer(), 3, false},
      {DualLayer(), 8, true},        {DualLayer(), 16, false},
      {GatedDeltaLayer(), 16, true}, {GatedDeltaLayer(), 32, false},
      {FeedForwardLayer(), 7, true}, {FeedForwardLayer(), 5, false},
      {OpaqueSample(), 2, true},     {OpaqueSample(), 4, false},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(SplitsOverTensorRanks(test.layer, test.degree), test.splits)
        << test.layer.layer_definition_id << " " << test.degree;
    EXPECT_TRUE(SplitsOverTensorRanks(test.layer, 1));
  }
}

}  // namespace
}  // namespace parplan
