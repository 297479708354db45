#include "planner/model/layer_definition.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/model/model_spec.h"
#include "tests/planner/model/broken_rule.h"
#include "tests/support/rejection.h"
#include "tests/support/sample_layers.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

LayerDefinition HeadOf(const LayerDefinition& layer, int further_token_count) {
  LayerDefinition head;
  head.layer_definition_id = "head";
  head.kind = LayerKind::kHead;
  head.hidden_size = layer.hidden_size;
  head.sequence_length = layer.sequence_length;
  head.vocabulary_size = 129280;
  head.further_token_count = further_token_count;
  return *LayerDefinition::Create(head, "head");
}

TEST(LayerDefinition, OfEachStructureIsCreatedTwiceTheSame) {
  for (const LayerDefinition& layer : LayersOfAllStructures()) {
    ASSERT_OK_AND_ASSIGN(const LayerDefinition again, LayerDefinition::Create(layer, "layer"));
    EXPECT_EQ(again, layer);
  }
}

TEST(SameLayer, DependsOnEachStructure) {
  for (const LayerDefinition& layer : LayersOfAllStructures()) {
    LayerDefinition renamed = layer;
    renamed.layer_definition_id = "other";
    EXPECT_TRUE(SameLayer(layer, renamed));
    for (const LayerDefinition& other : LayersOfAllStructures()) {
      EXPECT_EQ(SameLayer(layer, other), layer.layer_definition_id == other.layer_definition_id);
    }
  }
}

TEST(LayerDefinition, RulesOfStructuresNameTheirField) {
  const struct {
    LayerDefinition layer;
    std::function<void(LayerDefinition&)> break_it;
    const char* field;
  } cases[] = {
      {LatentLayer(), [](auto& l) { l.latent_attention->key_value_rank = 0; },
       "latent_attention.key_value_rank"},
      {LatentLayer(), [](auto& l) { l.latent_attention->query_rank = -1; },
       "latent_attention.query_rank"},
      {LatentLayer(), [](auto& l) { l.latent_attention->rotary_head_size = 192; },
       "latent_attention.rotary_head_size"},
      {LatentLayer(), [](auto& l) { l.latent_attention->value_head_size = 0; },
       "latent_attention.value_head_size"},
      {LatentLayer(), [](auto& l) { l.latent_attention->value_head_size = 1 << 24; },
       "latent_attention.value_head_size"},
      {LatentLayer(), [](auto& l) { l.key_value_head_count = 64; }, "key_value_head_count"},
      {LatentLayer(), [](auto& l) { l.kind = LayerKind::kEncoder; }, "latent_attention"},
      {WindowLayer(64, 8), [](auto& l) { l.attention_chunk_size = 8; }, "attention_chunk_size"},
      {WindowLayer(64, 8), [](auto& l) { l.attention_window = -1; }, "attention_window"},
      {WindowLayer(64, 8), [](auto& l) { l.feed_forward_kind = FeedForwardKind::kAbsent; },
       "feed_forward_size"},
      {WindowLayer(64, 8), [](auto& l) { l.state_space = StateSpace(); }, "state_space"},
      {WindowLayer(64, 8), [](auto& l) { l.opaque = OpaqueLayer(); }, "opaque"},
      {WindowLayer(64, 8), [](auto& l) { l.vocabulary_size = 8; }, "vocabulary_size"},
      {WindowLayer(64, 8), [](auto& l) { l.further_token_count = 1; }, "further_token_count"},
      {SelectiveLayer(), [](auto& l) { l.state_space.reset(); }, "state_space"},
      {SelectiveLayer(), [](auto& l) { l.state_space->time_step_rank = 0; },
       "state_space.time_step_rank"},
      {SelectiveLayer(), [](auto& l) { l.state_space->head_count = 8; }, "state_space.head_count"},
      {SelectiveLayer(), [](auto& l) { l.attention_head_count = 8; }, "attention_head_count"},
      {SelectiveLayer(), [](auto& l) { l.attention_window = 8; }, "attention_window"},
      {DualLayer(), [](auto& l) { l.state_space->head_count = 3; }, "state_space.head_count"},
      {DualLayer(), [](auto& l) { l.state_space->group_count = 3; }, "state_space.group_count"},
      {DualLayer(), [](auto& l) { l.state_space->chunk_size = 0; }, "state_space.chunk_size"},
      {DualLayer(), [](auto& l) { l.state_space->inner_size = 0; }, "state_space.inner_size"},
      {DualLayer(), [](auto& l) { l.state_space->time_step_rank = 1; },
       "state_space.time_step_rank"},
      {DualLayer(), [](auto& l) { l.state_space->state_size = 1 << 22; }, "state_space.state_size"},
      {DualLayer(), [](auto& l) { l.feed_forward_kind = FeedForwardKind::kNone; },
       "feed_forward_kind"},
      {FeedForwardLayer(), [](auto& l) { l.feed_forward_kind = FeedForwardKind::kAbsent; },
       "feed_forward_kind"},
      {FeedForwardLayer(), [](auto& l) { l.prediction_depth = 1; }, "prediction_depth"},
      {PredictionLayer(), [](auto& l) { l.vocabulary_size = 0; }, "vocabulary_size"},
      {PredictionLayer(), [](auto& l) { l.prediction_depth = 65; }, "prediction_depth"},
      {OpaqueSample(), [](auto& l) { l.opaque.reset(); }, "opaque"},
      {OpaqueSample(), [](auto& l) { l.feed_forward_size = 8; }, "feed_forward_size"},
      {OpaqueSample(), [](auto& l) { l.opaque->kept_bytes_per_sample = -1; },
       "opaque.kept_bytes_per_sample"},
      {OpaqueSample(), [](auto& l) { l.opaque->boundary_bytes_per_sample = int64_t{1} << 51; },
       "opaque.boundary_bytes_per_sample"},
      {OpaqueSample(), [](auto& l) { l.opaque->tensor_degrees[0].tensor_parallel_degree = 1; },
       "opaque.tensor_degrees[0].tensor_parallel_degree"},
      {OpaqueSample(), [](auto& l) { l.opaque->tensor_degrees.resize(2); },
       "opaque.tensor_degrees[1].tensor_parallel_degree"},
      {OpaqueSample(), [](auto& l) { l.opaque->tensor_degrees[0].parameter_count = -1; },
       "opaque.tensor_degrees[0].parameter_count"},
      {OpaqueSample(), [](auto& l) { l.opaque->tensor_degrees[0].backward_all_reduce_count = -1; },
       "opaque.tensor_degrees[0].backward_all_reduce_count"},
      {HeadOf(LatentLayer(), 0), [](auto& l) { l.prediction_depth = 1; }, "prediction_depth"},
  };
  for (const auto& test : cases) {
    LayerDefinition broken = test.layer;
    test.break_it(broken);
    EXPECT_THAT(LayerDefinition::Create(broken, "layer").status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(std::string("layer.") + test.field + ": ")))
        << test.layer.layer_definition_id;
  }
}

TEST(ModelSpec, LayersThatPredictFollowOneForEachTokenOfTheHead) {
  const auto create = [](std::vector<LayerDefinition> definitions,
                         std::vector<ModelLayerRun> runs) {
    return ModelSpec::Create("m", std::move(definitions), std::move(runs), Precision::kBf16,
                             Optimizer::kAdam)
        .status();
  };
  const LayerDefinition decoder = LatentLayer();
  const LayerDefinition first = PredictionLayer();
  LayerDefinition second = first;
  second.layer_definition_id = "second";
  second.prediction_depth = 2;
  EXPECT_OK(create({decoder, first, HeadOf(decoder, 1)}, {{0, 3}, {1, 1}, {2, 1}}));
  EXPECT_OK(create({decoder, first, second, HeadOf(decoder, 2)}, {{0, 3}, {1, 1}, {2, 1}, {3, 1}}));
  EXPECT_THAT(create({decoder, first, HeadOf(decoder, 0)}, {{0, 3}, {1, 1}, {2, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("further_token_count")));
  EXPECT_THAT(create({decoder, HeadOf(decoder, 1)}, {{0, 3}, {1, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("further_token_count")));
  EXPECT_THAT(create({decoder, first, HeadOf(decoder, 1)}, {{1, 1}, {0, 3}, {2, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prediction_depth")));
  EXPECT_THAT(create({decoder, first, HeadOf(decoder, 1)}, {{0, 3}, {1, 2}, {2, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prediction_depth")));
  EXPECT_THAT(create({decoder, second, HeadOf(decoder, 1)}, {{0, 3}, {1, 1}, {2, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prediction_depth")));
}

}  // namespace
}  // namespace parplan
