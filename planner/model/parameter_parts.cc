#include "planner/model/parameter_parts.h"

namespace parplan {
namespace {

// Adds `layer_count` layers of one definition.
void AddLayers(const LayerDefinition& layer, int64_t layer_count, ParameterParts& parts) {
  switch (layer.kind) {
    case LayerKind::kEmbedding:
    case LayerKind::kPatchEmbedding:
      parts.embedding += layer_count * layer.parameter_count;
      return;
    case LayerKind::kHead:
      parts.head += layer_count * layer.parameter_count;
      return;
    case LayerKind::kDecoder:
    case LayerKind::kEncoder:
    case LayerKind::kCrossDecoder:
      break;
  }
  const int64_t hidden = layer.hidden_size;
  const int64_t heads = int64_t{2} * (layer.attention_head_count + layer.key_value_head_count);
  const int64_t attention =
      (layer.kind == LayerKind::kCrossDecoder ? 2 : 1) * hidden * heads * layer.head_size;
  const int64_t per_width = (layer.feed_forward_kind == FeedForwardKind::kSwiglu ? 3 : 2) * hidden;
  int64_t feed_forward = 0;
  int64_t experts = 0;
  if (layer.expert_count == 0) {
    feed_forward = per_width * layer.feed_forward_size;
  } else {
    experts = per_width * (int64_t{layer.expert_count} * layer.expert_feed_forward_size +
                           layer.shared_expert_feed_forward_size) +
              hidden * layer.expert_count;
  }
  parts.attention += layer_count * attention;
  parts.feed_forward += layer_count * feed_forward;
  parts.experts += layer_count * experts;
  parts.other += layer_count * (layer.parameter_count - attention - feed_forward - experts);
}

}  // namespace

std::array<std::pair<absl::string_view, int64_t>, 6> NamedParameterParts(
    const ParameterParts& parts) {
  return {{{"embedding", parts.embedding},
           {"attention", parts.attention},
           {"feed_forward", parts.feed_forward},
           {"experts", parts.experts},
           {"other", parts.other},
           {"head", parts.head}}};
}

ParameterParts ParametersByPart(const ModelSpec& model) {
  ParameterParts parts;
  for (const ModelLayerRun& run : model.layer_runs()) {
    AddLayers(model.layer_definitions()[run.definition_index], run.layer_count, parts);
  }
  return parts;
}

}  // namespace parplan
