#include "planner/model/parameter_parts.h"

#include <algorithm>
#include <cstdint>

#include "planner/model/layer_matrices.h"

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
    case LayerKind::kOpaque:
      parts.opaque += layer_count * layer.parameter_count;
      return;
    case LayerKind::kDecoder:
    case LayerKind::kEncoder:
    case LayerKind::kCrossDecoder:
    case LayerKind::kStateSpace:
    case LayerKind::kFeedForward:
      break;
  }
  if (layer.prediction_depth > 0) {
    parts.prediction += layer_count * layer.parameter_count;
    return;
  }
  const int64_t mixer = MixerElements(layer).Sum();
  const FeedForwardElements elements = FeedForwardElementsOf(layer);
  const int64_t experts = layer.has_experts() ? elements.dense + elements.copied() +
                                                    layer.expert_count * elements.expert
                                              : 0;
  const int64_t feed_forward = layer.has_experts() ? 0 : elements.dense;
  // Projections may be products of narrow matrices that have fewer parameters than the one by which
  // they are priced (Step3's queries).
  const int64_t rest = layer.parameter_count - mixer - feed_forward - experts;
  (layer.kind == LayerKind::kStateSpace ? parts.state_space : parts.attention) +=
      layer_count * (mixer + std::min<int64_t>(rest, 0));
  parts.feed_forward += layer_count * feed_forward;
  parts.experts += layer_count * experts;
  parts.other += layer_count * std::max<int64_t>(rest, 0);
}

}  // namespace

std::vector<std::pair<absl::string_view, int64_t>> NamedParameterParts(
    const ParameterParts& parts) {
  std::vector<std::pair<absl::string_view, int64_t>> named = {{"embedding", parts.embedding},
                                                              {"attention", parts.attention},
                                                              {"feed_forward", parts.feed_forward},
                                                              {"experts", parts.experts},
                                                              {"other", parts.other},
                                                              {"head", parts.head}};
  for (const auto& [name, count] :
       {std::pair<absl::string_view, int64_t>{"state_space", parts.state_space},
        {"opaque", parts.opaque},
        {"prediction", parts.prediction}}) {
    if (count != 0) named.emplace_back(name, count);
  }
  return named;
}

ParameterParts ParametersByPart(const ModelSpec& model) {
  ParameterParts parts;
  for (const ModelLayerRun& run : model.layer_runs()) {
    AddLayers(model.layer_definitions()[run.definition_index], run.layer_count, parts);
  }
  return parts;
}

}  // namespace parplan
