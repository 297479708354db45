#include "tests/support/sample_layers.h"

#include <utility>

#include "tests/support/valid.h"

namespace parplan {
namespace {

LayerDefinition Made(LayerDefinition raw) {
  return Valid(LayerDefinition::Create(std::move(raw), "layer"));
}

LayerDefinition RawLatentLayer(int sequence_length) {
  return {.layer_definition_id = "latent",
          .kind = LayerKind::kDecoder,
          .hidden_size = 7168,
          .attention_head_count = 128,
          .head_size = 192,
          .feed_forward_size = 18432,
          .feed_forward_kind = FeedForwardKind::kSwiglu,
          .sequence_length = sequence_length,
          .latent_attention = LatentAttention{.query_rank = 1536,
                                              .key_value_rank = 512,
                                              .rotary_head_size = 64,
                                              .value_head_size = 128}};
}

}  // namespace

LayerDefinition LatentLayer(int sequence_length) { return Made(RawLatentLayer(sequence_length)); }

LayerDefinition WindowLayer(int sequence_length, int attention_window) {
  return Made({.layer_definition_id = "window",
               .kind = LayerKind::kDecoder,
               .hidden_size = 4096,
               .attention_head_count = 32,
               .key_value_head_count = 8,
               .feed_forward_size = 14336,
               .feed_forward_kind = FeedForwardKind::kSwiglu,
               .sequence_length = sequence_length,
               .attention_window = attention_window});
}

LayerDefinition SelectiveLayer(int sequence_length) {
  return Made({.layer_definition_id = "selective",
               .kind = LayerKind::kStateSpace,
               .hidden_size = 4096,
               .feed_forward_size = 14336,
               .feed_forward_kind = FeedForwardKind::kSwiglu,
               .sequence_length = sequence_length,
               .state_space = StateSpace{.kind = StateSpaceKind::kSelective,
                                         .inner_size = 8192,
                                         .state_size = 16,
                                         .time_step_rank = 256,
                                         .convolution_width = 4}});
}

LayerDefinition DualLayer(int sequence_length) {
  return Made({.layer_definition_id = "dual",
               .kind = LayerKind::kStateSpace,
               .hidden_size = 4096,
               .feed_forward_kind = FeedForwardKind::kAbsent,
               .sequence_length = sequence_length,
               .state_space = StateSpace{.kind = StateSpaceKind::kDual,
                                         .inner_size = 8192,
                                         .state_size = 128,
                                         .head_count = 128,
                                         .group_count = 8,
                                         .convolution_width = 4,
                                         .chunk_size = 256}});
}

LayerDefinition GatedDeltaLayer(int sequence_length) {
  return Made({.layer_definition_id = "gated-delta",
               .kind = LayerKind::kStateSpace,
               .hidden_size = 2048,
               .feed_forward_kind = FeedForwardKind::kSwiglu,
               .sequence_length = sequence_length,
               .expert_count = 512,
               .experts_per_token = 10,
               .expert_feed_forward_size = 512,
               .shared_expert_feed_forward_size = 512,
               .state_space = StateSpace{.kind = StateSpaceKind::kGatedDelta,
                                         .inner_size = 4096,
                                         .state_size = 128,
                                         .head_count = 32,
                                         .group_count = 16,
                                         .convolution_width = 4,
                                         .chunk_size = 64}});
}

LayerDefinition FeedForwardLayer(int sequence_length) {
  return Made({.layer_definition_id = "feed-forward",
               .kind = LayerKind::kFeedForward,
               .hidden_size = 4096,
               .feed_forward_size = 21504,
               .feed_forward_kind = FeedForwardKind::kGelu,
               .sequence_length = sequence_length});
}

LayerDefinition PredictionLayer(int sequence_length) {
  LayerDefinition raw = RawLatentLayer(sequence_length);
  raw.layer_definition_id = "prediction";
  raw.prediction_depth = 1;
  raw.vocabulary_size = 129280;
  return Made(std::move(raw));
}

LayerDefinition OpaqueSample(int sequence_length) {
  return Made(
      {.layer_definition_id = "opaque",
       .kind = LayerKind::kOpaque,
       .hidden_size = 64,
       .sequence_length = sequence_length,
       .parameter_count = 1000,
       .opaque = OpaqueLayer{.kept_bytes_per_sample = int64_t{1} << 30,
                             .tensor_degrees = {{.tensor_parallel_degree = 2,
                                                 .parameter_count = 600,
                                                 .kept_bytes_per_sample = 3 << 28,
                                                 .forward_all_reduce_count = 1,
                                                 .backward_all_reduce_count = 2,
                                                 .all_reduce_bytes_per_sample = 1 << 20}}}});
}

std::vector<LayerDefinition> LayersOfAllStructures(int sequence_length) {
  return {LatentLayer(sequence_length),     WindowLayer(sequence_length, sequence_length / 4),
          SelectiveLayer(sequence_length),  DualLayer(sequence_length),
          GatedDeltaLayer(sequence_length), FeedForwardLayer(sequence_length),
          PredictionLayer(sequence_length), OpaqueSample(sequence_length)};
}

}  // namespace parplan
