#include "planner/model/layer_matrices.h"

#include <algorithm>

namespace parplan {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t HeadsWide(int64_t head_count, int64_t head_size) { return head_count * head_size; }

PartElements LatentAttentionElements(const LayerDefinition& layer) {
  const LatentAttention& latent = *layer.latent_attention;
  const int64_t hidden = layer.hidden_size;
  const int64_t heads = layer.attention_head_count;
  const int64_t key_head = layer.head_size - latent.rotary_head_size;
  const int64_t query_input = latent.query_rank > 0 ? latent.query_rank : hidden;
  PartElements elements;
  elements.matrices.split =
      query_input * heads * layer.head_size +
      int64_t{latent.key_value_rank} * heads * (key_head + latent.value_head_size) +
      heads * latent.value_head_size * hidden;
  elements.matrices.copied =
      hidden * (int64_t{latent.query_rank} + latent.key_value_rank + latent.rotary_head_size);
  elements.vectors.copied = int64_t{latent.query_rank} + latent.key_value_rank;
  return elements;
}

}  // namespace

int AttentionBlockCount(LayerKind kind) {
  if (kind == LayerKind::kCrossDecoder) return 2;
  return HasAttention(kind) ? 1 : 0;
}

int NormCount(const LayerDefinition& layer) {
  const int mixers = layer.kind == LayerKind::kStateSpace ? 1 : AttentionBlockCount(layer.kind);
  return mixers + (layer.has_feed_forward() ? 1 : 0);
}

int ParameterTensorCount(const LayerDefinition& layer) {
  switch (layer.kind) {
    case LayerKind::kEmbedding:
    case LayerKind::kPatchEmbedding:
      return 1;
    case LayerKind::kHead:
      // The norm before the table, if it has one of its own.
      return layer.tied_embedding ? 1 : 2;
    case LayerKind::kOpaque:
      return 0;
    default:
      break;
  }
  int count = NormCount(layer) + 2 * AttentionBlockCount(layer.kind);
  if (layer.latent_attention.has_value()) {
    // Keys and values come from a map down with a norm and a map up; so may queries.
    count += layer.latent_attention->query_rank > 0 ? 5 : 3;
  }
  if (layer.kind == LayerKind::kStateSpace) {
    // Both projections, convolution, time step, decay, skip and norm (Mamba-2).
    count += 7;
  }
  if (layer.has_experts()) {
    // The router.
    count += 1 + ExpertTensorCount(layer) + (layer.shared_expert_feed_forward_size > 0 ? 2 : 0) +
             (layer.expert_latent_size > 0 ? 2 : 0);
  } else if (layer.has_feed_forward()) {
    count += 2;
  }
  // The map of the pair, and three norms.
  return count + (layer.prediction_depth > 0 ? 4 : 0);
}

int ExpertTensorCount(const LayerDefinition& layer) { return layer.has_experts() ? 2 : 0; }

double ProjectedWidth(const StateSpace& space) {
  const double inner = 2.0 * space.inner_size;
  if (space.kind == StateSpaceKind::kSelective) return inner;
  return inner + 2.0 * space.group_count * space.state_size +
         (space.kind == StateSpaceKind::kGatedDelta ? 2.0 : 1.0) * space.head_count;
}

PartElements StateSpaceElements(int hidden_size, const StateSpace& space) {
  const int64_t hidden = hidden_size;
  const int64_t inner = space.inner_size;
  const int64_t heads = space.head_count;
  const int64_t width = space.convolution_width;
  PartElements elements;
  SplitElements& matrices = elements.matrices;
  SplitElements& vectors = elements.vectors;
  if (space.kind == StateSpaceKind::kSelective) {
    const int64_t rank = space.time_step_rank;
    matrices.split = hidden * 2 * inner + inner * (rank + 2 * int64_t{space.state_size}) +
                     rank * inner + inner * hidden;
    // Convolution and its bias, bias of the time step, decay of each state, skip.
    vectors.split = inner * (width + 1) + inner + inner * space.state_size + inner;
    return elements;
  }
  const int64_t states = int64_t{space.group_count} * space.state_size;
  const bool is_delta = space.kind == StateSpaceKind::kGatedDelta;
  // Input and gate, both projections of the state, and one or two numbers a head.
  matrices.split = hidden * (2 * inner + 2 * states + (is_delta ? 2 : 1) * heads) + inner * hidden;
  vectors.split = (inner + 2 * states) * (width + (is_delta ? 0 : 1)) + (is_delta ? 2 : 3) * heads;
  // The norm in front of the last product: of a head, which all heads have in common, or of all.
  (is_delta ? vectors.copied : vectors.split) += is_delta ? inner / heads : inner;
  return elements;
}

PartElements MixerElements(const LayerDefinition& layer) {
  if (layer.state_space.has_value()) {
    return StateSpaceElements(layer.hidden_size, *layer.state_space);
  }
  if (layer.latent_attention.has_value()) return LatentAttentionElements(layer);
  const int64_t blocks = AttentionBlockCount(layer.kind);
  const int64_t hidden = layer.hidden_size;
  PartElements elements;
  elements.matrices.split =
      blocks * hidden * 2 * HeadsWide(layer.attention_head_count, layer.head_size);
  elements.matrices.of_key_value_heads =
      blocks * hidden * 2 * HeadsWide(layer.key_value_head_count, layer.head_size);
  return elements;
}

FeedForwardElements FeedForwardElementsOf(const LayerDefinition& layer) {
  const int64_t matrices = layer.feed_forward_kind == FeedForwardKind::kSwiglu ? 3 : 2;
  const int64_t hidden = layer.hidden_size;
  FeedForwardElements elements;
  if (!layer.has_experts()) {
    elements.dense = matrices * hidden * layer.feed_forward_size;
    return elements;
  }
  elements.dense = matrices * hidden * layer.shared_expert_feed_forward_size;
  elements.router = hidden * layer.expert_count;
  elements.latent = 2 * hidden * layer.expert_latent_size;
  elements.expert = matrices * layer.expert_width() * layer.expert_feed_forward_size;
  return elements;
}

int64_t PredictionMatrixElements(const LayerDefinition& layer) {
  return layer.prediction_depth > 0 ? 2 * int64_t{layer.hidden_size} * layer.hidden_size : 0;
}

int64_t PredictionNormElements(const LayerDefinition& layer) {
  return layer.prediction_depth > 0 ? 3 * int64_t{layer.hidden_size} : 0;
}

int64_t AdapterElements(const LayerDefinition& layer) {
  int64_t elements = 0;
  if (layer.attention_adapter_rank > 0) {
    const AttentionWidths widths = AttentionWidthsOf(layer);
    elements +=
        AttentionBlockCount(layer.kind) * int64_t{layer.attention_adapter_rank} *
        (2 * int64_t{layer.hidden_size} + widths.query + widths.key + widths.value + widths.output);
  }
  const int64_t first = layer.feed_forward_kind == FeedForwardKind::kSwiglu ? 2 : 1;
  elements += int64_t{layer.feed_forward_adapter_rank} *
              (2 * int64_t{layer.hidden_size} + (first + 1) * layer.feed_forward_size);
  return elements;
}

AttentionWidths AttentionWidthsOf(const LayerDefinition& layer) {
  AttentionWidths widths;
  widths.key_head = layer.head_size;
  widths.value_head = layer.latent_attention.has_value() ? layer.latent_attention->value_head_size
                                                         : layer.head_size;
  widths.query = HeadsWide(layer.attention_head_count, widths.key_head);
  widths.key = HeadsWide(layer.key_value_head_count, widths.key_head);
  widths.value = HeadsWide(layer.key_value_head_count, widths.value_head);
  widths.output = HeadsWide(layer.attention_head_count, widths.value_head);
  return widths;
}

int64_t AttentionInputWidth(const LayerDefinition& layer) {
  if (!layer.latent_attention.has_value()) return layer.hidden_size;
  const LatentAttention& latent = *layer.latent_attention;
  const int64_t query = latent.query_rank > 0 ? latent.query_rank : layer.hidden_size;
  return query + latent.key_value_rank + latent.rotary_head_size;
}

int64_t KeyValueParts(const LayerDefinition& layer, int64_t degree) {
  return std::max<int64_t>(1, std::min<int64_t>(degree, layer.key_value_head_count));
}

int64_t LargestMixerMatrix(const LayerDefinition& layer, int64_t degree) {
  const int64_t hidden = layer.hidden_size;
  if (layer.state_space.has_value()) {
    return CeilDiv(hidden * static_cast<int64_t>(ProjectedWidth(*layer.state_space)), degree);
  }
  if (!HasAttention(layer.kind)) return 0;
  const AttentionWidths widths = AttentionWidthsOf(layer);
  if (!layer.latent_attention.has_value()) {
    // Queries, keys and values are one matrix.
    return CeilDiv(hidden * widths.query, degree) +
           CeilDiv(2 * hidden * widths.key, KeyValueParts(layer, degree));
  }
  const LatentAttention& latent = *layer.latent_attention;
  const int64_t query_input = latent.query_rank > 0 ? latent.query_rank : hidden;
  const int64_t up = int64_t{latent.key_value_rank} * (widths.key + widths.value);
  return std::max({CeilDiv(query_input * widths.query, degree), CeilDiv(up, degree),
                   CeilDiv(hidden * widths.output, degree), hidden * latent.query_rank,
                   hidden * (int64_t{latent.key_value_rank} + latent.rotary_head_size)});
}

}  // namespace parplan
