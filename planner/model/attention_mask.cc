#include "planner/model/attention_mask.h"

#include <cmath>

namespace parplan {

double AttentionPairs(const LayerDefinition& layer, bool causal, double sequence_length) {
  const double square = sequence_length * sequence_length;
  double both_sides = square;
  if (layer.attention_window > 0 && layer.attention_window < sequence_length) {
    // The square less two triangles.
    const double cut = sequence_length - layer.attention_window;
    both_sides = square - cut * cut;
  } else if (layer.attention_chunk_size > 0 && layer.attention_chunk_size < sequence_length) {
    const double chunk = layer.attention_chunk_size;
    const double whole = std::floor(sequence_length / chunk);
    const double rest = sequence_length - whole * chunk;
    both_sides = whole * chunk * chunk + rest * rest;
  }
  return causal ? 0.5 * both_sides : both_sides;
}

double VisibleShare(const LayerDefinition& layer, bool causal, double sequence_length) {
  if (layer.attention_window == 0 && layer.attention_chunk_size == 0) return 1.0;
  const double all = sequence_length * sequence_length;
  return AttentionPairs(layer, causal, sequence_length) / (causal ? 0.5 * all : all);
}

}  // namespace parplan
