#include "planner/model/parameter_parts.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

LayerDefinition PartOf(const char* id, LayerKind kind) {
  LayerDefinition layer;
  layer.layer_definition_id = id;
  layer.kind = kind;
  layer.hidden_size = 64;
  layer.sequence_length = 16;
  if (!IsTransformer(kind)) {
    layer.vocabulary_size = 100;
    return layer;
  }
  layer.attention_head_count = 4;
  layer.key_value_head_count = 2;
  layer.feed_forward_size = 96;
  layer.feed_forward_kind = FeedForwardKind::kSwiglu;
  return layer;
}

TEST(ParametersByPart, EachPartIsWorkedOutByHandAndAllAddUp) {
  LayerDefinition dense = PartOf("dense", LayerKind::kDecoder);
  // 64 (2 64 + 2 32) of attention, 3 64 96, two norms, and 10 more.
  dense.parameter_count = 64 * 192 + 3 * 64 * 96 + 2 * 64 + 10;
  LayerDefinition mixture = PartOf("mixture", LayerKind::kDecoder);
  mixture.feed_forward_size = 0;
  mixture.expert_count = 8;
  mixture.experts_per_token = 2;
  mixture.expert_feed_forward_size = 16;
  mixture.shared_expert_feed_forward_size = 24;
  LayerDefinition cross = PartOf("cross", LayerKind::kCrossDecoder);
  cross.feed_forward_kind = FeedForwardKind::kGelu;
  LayerDefinition head = PartOf("head", LayerKind::kHead);
  head.tied_embedding = true;
  std::vector<LayerDefinition> definitions;
  for (const LayerDefinition& raw :
       {PartOf("embedding", LayerKind::kEmbedding), dense, mixture, cross, head}) {
    ASSERT_OK_AND_ASSIGN(LayerDefinition made, LayerDefinition::Create(raw, "layer"));
    definitions.push_back(std::move(made));
  }
  ASSERT_OK_AND_ASSIGN(const ModelSpec model,
                       ModelSpec::Create("m", definitions, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 1}},
                                         Precision::kBf16, Optimizer::kAdam));
  const ParameterParts parts = ParametersByPart(model);
  EXPECT_EQ(parts.embedding, 100 * 64);
  EXPECT_EQ(parts.attention, (2 + 3 + 4 * 2) * 64 * 192);
  EXPECT_EQ(parts.feed_forward, 2 * 3 * 64 * 96 + 4 * 2 * 64 * 96);
  EXPECT_EQ(parts.experts, 3 * (3 * 64 * (8 * 16 + 24) + 64 * 8));
  EXPECT_EQ(parts.other, 2 * (2 * 64 + 10) + 3 * 2 * 64 + 4 * 3 * 64);
  EXPECT_EQ(parts.head, 64);
  EXPECT_EQ(parts.embedding + parts.attention + parts.feed_forward + parts.experts + parts.other +
                parts.head,
            model.parameter_count());
}

}  // namespace
}  // namespace parplan
