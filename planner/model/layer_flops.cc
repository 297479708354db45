#include "planner/model/layer_flops.h"

#include <algorithm>

#include "planner/model/attention_mask.h"
#include "planner/model/layer_matrices.h"

namespace parplan {

double ScanChunk(const StateSpace& space, int sequence_length) {
  return std::min(space.chunk_size, sequence_length);
}

ScanFlops ScanFlopsPerToken(const StateSpace& space, int sequence_length) {
  const double inner = space.inner_size;
  const double state = space.state_size;
  ScanFlops flops;
  if (space.kind == StateSpaceKind::kSelective) {
    flops.vectors = inner * (9.0 * state + 2.0 * space.convolution_width);
    return flops;
  }
  const double chunk = ScanChunk(space, sequence_length);
  const double states = space.group_count * state;
  flops.vectors = 2.0 * space.convolution_width * (inner + 2.0 * states);
  if (space.kind == StateSpaceKind::kDual) {
    // Scores of each group, their product with the inputs; states in and out.
    flops.products = 2.0 * chunk * (states + inner) + 4.0 * state * inner;
    return flops;
  }
  // Scores among keys, and of queries with keys; keys and values behind the triangle's inverse;
  // scores with values; the state with keys, with queries, and its update.
  const double heads = space.head_count;
  flops.products = 2.0 * chunk * (3.0 * heads * state + 2.0 * inner) + 6.0 * state * inner;
  flops.vectors += heads * chunk * chunk / 3.0;
  return flops;
}

double AttentionFlopsPerSample(const LayerDefinition& definition, int sequence_length) {
  if (!HasAttention(definition.kind)) return 0.0;
  const double tokens = sequence_length;
  const AttentionWidths widths = AttentionWidthsOf(definition);
  // Over all pairs.
  const double full = 2.0 * tokens * tokens * static_cast<double>(widths.query + widths.output);
  const bool causal = definition.kind != LayerKind::kEncoder;
  const double visible = VisibleShare(definition, causal, tokens);
  switch (definition.kind) {
    case LayerKind::kDecoder:
      return 0.5 * full * visible;
    case LayerKind::kCrossDecoder:
      // Cross-attention reads all encoded tokens.
      return (0.5 * visible + 1.0) * full;
    default:
      return full * visible;
  }
}

double ForwardFlopsPerSample(const LayerDefinition& definition, int sequence_length) {
  const double tokens = sequence_length;
  switch (definition.kind) {
    case LayerKind::kEmbedding:
    case LayerKind::kOpaque:
      return 0.0;
    case LayerKind::kPatchEmbedding:
      return 2.0 * tokens * definition.hidden_size * definition.vocabulary_size;
    case LayerKind::kHead:
      return 2.0 * tokens * (1 + definition.further_token_count) * definition.hidden_size *
             definition.vocabulary_size;
    case LayerKind::kDecoder:
    case LayerKind::kEncoder:
    case LayerKind::kCrossDecoder:
    case LayerKind::kStateSpace:
    case LayerKind::kFeedForward:
      break;
  }
  const FeedForwardElements feed_forward = FeedForwardElementsOf(definition);
  const int64_t active = feed_forward.dense + feed_forward.copied() +
                         definition.experts_per_token * feed_forward.expert;
  const double matrices = 2.0 * tokens *
                          static_cast<double>(MixerElements(definition).matrices.Sum() + active +
                                              PredictionMatrixElements(definition));
  double scan = 0.0;
  if (definition.state_space.has_value()) {
    const ScanFlops flops = ScanFlopsPerToken(*definition.state_space, sequence_length);
    scan = tokens * (flops.products + flops.vectors);
  }
  return matrices + scan + AttentionFlopsPerSample(definition, sequence_length);
}

}  // namespace parplan
