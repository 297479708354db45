#include "planner/model/layer_definition.h"

#include <algorithm>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "planner/model/layer_matrices.h"
#include "planner/model/layer_rules.h"
#include "planner/model/model_limits.h"
#include "planner/model/spec_error.h"

namespace parplan {
namespace {

int64_t ParameterCountOf(const LayerDefinition& layer) {
  const int64_t hidden = layer.hidden_size;
  switch (layer.kind) {
    case LayerKind::kEmbedding:
      return hidden * layer.vocabulary_size;
    case LayerKind::kPatchEmbedding:
      return hidden * layer.vocabulary_size + hidden;
    case LayerKind::kHead:
      return layer.tied_embedding ? hidden : hidden * layer.vocabulary_size + hidden;
    case LayerKind::kOpaque:
      return 0;
    case LayerKind::kDecoder:
    case LayerKind::kEncoder:
    case LayerKind::kCrossDecoder:
    case LayerKind::kStateSpace:
    case LayerKind::kFeedForward:
      break;
  }
  const FeedForwardElements feed_forward = FeedForwardElementsOf(layer);
  return MixerElements(layer).Sum() + feed_forward.dense + feed_forward.copied() +
         layer.expert_count * feed_forward.expert + NormCount(layer) * hidden +
         PredictionMatrixElements(layer) + PredictionNormElements(layer);
}

}  // namespace

bool HasAttention(LayerKind kind) {
  return kind == LayerKind::kDecoder || kind == LayerKind::kEncoder ||
         kind == LayerKind::kCrossDecoder;
}

bool IsTransformer(LayerKind kind) {
  return HasAttention(kind) || kind == LayerKind::kStateSpace || kind == LayerKind::kFeedForward ||
         kind == LayerKind::kOpaque;
}

absl::StatusOr<LayerDefinition> LayerDefinition::Create(LayerDefinition raw,
                                                        const std::string& field) {
  PARPLAN_RETURN_IF_ERROR(ApplyLayerRules(field, raw));
  if (raw.parameter_count == 0) raw.parameter_count = ParameterCountOf(raw);
  if (raw.parameter_count < 0 || raw.parameter_count > kMaxModelParameterCount) {
    return SpecError(field + ".parameter_count", "must be 0 (computed) to 2^50");
  }
  return raw;
}

bool SameLayer(const LayerDefinition& a, const LayerDefinition& b) {
  LayerDefinition renamed = a;
  renamed.layer_definition_id = b.layer_definition_id;
  renamed.sequence_length = b.sequence_length;
  return renamed == b;
}

bool SplitsOverTensorRanks(const LayerDefinition& layer, int64_t degree) {
  if (degree == 1) return true;
  switch (layer.kind) {
    case LayerKind::kDecoder:
    case LayerKind::kEncoder:
    case LayerKind::kCrossDecoder:
      return layer.attention_head_count % degree == 0 && layer.key_value_head_count % degree == 0;
    case LayerKind::kStateSpace: {
      const StateSpace& space = *layer.state_space;
      if (space.kind == StateSpaceKind::kSelective) return space.inner_size % degree == 0;
      return space.head_count % degree == 0 && space.group_count % degree == 0;
    }
    case LayerKind::kFeedForward:
      return (layer.has_experts() ? layer.expert_feed_forward_size : layer.feed_forward_size) %
                 degree ==
             0;
    case LayerKind::kOpaque:
      return std::any_of(layer.opaque->tensor_degrees.begin(), layer.opaque->tensor_degrees.end(),
                         [degree](const OpaqueTensorDegree& part) {
                           return part.tensor_parallel_degree == degree;
                         });
    case LayerKind::kEmbedding:
    case LayerKind::kHead:
    case LayerKind::kPatchEmbedding:
      break;
  }
  return false;
}

bool HasUsualParts(const LayerDefinition& layer) {
  if (layer.frozen) return false;
  if (!IsTransformer(layer.kind)) return layer.further_token_count == 0;
  return HasAttention(layer.kind) && layer.has_feed_forward() &&
         !layer.latent_attention.has_value() && layer.expert_latent_size == 0 &&
         layer.prediction_depth == 0;
}

bool SharesTokens(const LayerDefinition& layer) {
  return layer.kind != LayerKind::kStateSpace && layer.kind != LayerKind::kOpaque;
}

OpaqueTensorDegree OpaquePart(const LayerDefinition& layer, int degree) {
  const OpaqueLayer& opaque = *layer.opaque;
  if (degree == 1) {
    return {.tensor_parallel_degree = 1,
            .parameter_count = layer.parameter_count,
            .kept_bytes_per_sample = opaque.kept_bytes_per_sample};
  }
  for (const OpaqueTensorDegree& part : opaque.tensor_degrees) {
    if (part.tensor_parallel_degree == degree) return part;
  }
  internal::CheckFailed(__FILE__, __LINE__, "an opaque layer allows this degree");
}

}  // namespace parplan
