#include "planner/cost/tensor_parallel_traffic.h"

#include "planner/model/layer_matrices.h"

namespace parplan {
namespace {

// Returns the sums beside those of `TrafficOfParts` in the backward pass of a runtime that sums the
// gradient of an input for each projection which reads it: queries, keys and values of each
// attention, gate and up of a gated feed-forward part. Each compressed vector of latent attention
// feeds one projection.
int FurtherReductions(const LayerDefinition& layer, const RuntimeTraits& runtime) {
  if (!runtime.reduces_each_projection) return 0;
  int attention_count = 0;
  if (HasAttention(layer.kind) && !layer.latent_attention.has_value()) {
    attention_count = layer.kind == LayerKind::kCrossDecoder ? 2 : 1;
  }
  return 2 * attention_count + (layer.feed_forward_kind == FeedForwardKind::kSwiglu ? 1 : 0);
}

// Returns the traffic of `count` parts of a layer. Each ends with one all-reduce, and begins with
// one in the backward pass; sequence parallelism gathers the inputs of `regathered_count` parts
// once more for the gradients of their weights.
TensorParallelTraffic TrafficOfParts(int count, bool sequence_parallel, int regathered_count) {
  TensorParallelTraffic traffic;
  if (!sequence_parallel) {
    traffic.forward = traffic.backward = traffic.hidden = {.all_reduces = count};
    return traffic;
  }
  traffic.forward = traffic.hidden = {.gathers = count, .scatters = count};
  traffic.backward = {.gathers = count + regathered_count, .scatters = count};
  return traffic;
}

// Replaces the exchanges at the input of latent attention: ranks exchange the compressed vectors,
// from which the split products start, and not the residual stream (Megatron Core,
// multi_latent_attention.py).
void ExchangeCompressedVectors(const LayerDefinition& layer, bool sequence_parallel, bool regathers,
                               TensorParallelTraffic& traffic) {
  traffic.inner_width = static_cast<double>(AttentionInputWidth(layer));
  if (!sequence_parallel) {
    --traffic.backward.all_reduces;
    traffic.inner_backward = {.all_reduces = 1};
  } else {
    --traffic.forward.gathers;
    --traffic.backward.scatters;
    traffic.inner_forward = {.gathers = 1};
    traffic.inner_backward = {.scatters = 1};
    if (regathers) {
      --traffic.backward.gathers;
      traffic.inner_backward.gathers = 1;
    }
  }
  const int wide_gathers = traffic.hidden.wide_gathers;
  traffic.hidden = TrafficOfParts(1, sequence_parallel, 0).hidden;
  traffic.hidden.wide_gathers = wide_gathers;
  traffic.inner_hidden =
      sequence_parallel ? PassTraffic{.gathers = 1, .scatters = 1} : PassTraffic{.all_reduces = 1};
}

}  // namespace

TensorParallelTraffic TrafficOf(const LayerDefinition& layer, bool sequence_parallel,
                                const RuntimeTraits& runtime, bool experts_apart) {
  TensorParallelTraffic traffic;
  switch (layer.kind) {
    case LayerKind::kEncoder:
    case LayerKind::kDecoder:
    case LayerKind::kCrossDecoder:
    case LayerKind::kStateSpace:
    case LayerKind::kFeedForward:
      break;
    case LayerKind::kEmbedding:
    case LayerKind::kPatchEmbedding:
      if (!sequence_parallel) {
        traffic.forward = {.all_reduces = 1};
      } else {
        traffic.forward = {.scatters = 1};
        traffic.backward = {.gathers = layer.frozen ? 0 : 1};
      }
      return traffic;
    case LayerKind::kHead: {
      const int predictions = 1 + layer.further_token_count;
      if (!sequence_parallel) {
        traffic.backward = {.all_reduces = predictions};
      } else {
        traffic.forward = {.gathers = runtime.logits_in_backward_pass ? 0 : predictions};
        // Logits are made in the backward pass from an input that is gathered there.
        const bool regathers =
            runtime.logits_in_backward_pass || (!runtime.keeps_gathered_inputs && !layer.frozen);
        traffic.backward = {.gathers = regathers ? predictions : 0, .scatters = predictions};
      }
      return traffic;
    }
    case LayerKind::kOpaque:
      // Its exchanges are given (`LayerDefinition::opaque`).
      return traffic;
  }
  // A part for each norm.
  int feed_forward_count = layer.has_feed_forward() ? 1 : 0;
  const int mixer_count = NormCount(layer) - feed_forward_count;
  // Tokens leave for their experts from all ranks at once, and those of a shared expert do not.
  if (runtime.expert_exchange == ExpertExchange::kRows && layer.has_experts() &&
      layer.shared_expert_feed_forward_size > 0) {
    ++feed_forward_count;
  }
  if (experts_apart && layer.has_experts() && layer.shared_expert_feed_forward_size == 0) {
    --feed_forward_count;
  }
  const auto regathers = [&](int adapter_rank) {
    return !runtime.keeps_gathered_inputs && (!layer.frozen || adapter_rank > 0);
  };
  const bool regathers_mixer = regathers(layer.attention_adapter_rank);
  const bool regathers_feed_forward = regathers(layer.feed_forward_adapter_rank);
  traffic = TrafficOfParts(
      mixer_count + feed_forward_count, sequence_parallel,
      (regathers_mixer ? mixer_count : 0) + (regathers_feed_forward ? feed_forward_count : 0));
  if (sequence_parallel && layer.has_experts() && !experts_apart) {
    traffic.forward.wide_gathers = traffic.hidden.wide_gathers = 1;
    traffic.backward.wide_gathers = regathers_feed_forward ? 2 : 1;
  }
  if (!sequence_parallel) traffic.backward.all_reduces += FurtherReductions(layer, runtime);
  if (layer.latent_attention.has_value()) {
    ExchangeCompressedVectors(layer, sequence_parallel, regathers_mixer, traffic);
  }
  if (layer.state_space.has_value() && layer.state_space->kind == StateSpaceKind::kSelective) {
    // Time steps and projections of the state are sums over all channels.
    traffic.inner_width = layer.state_space->time_step_rank + 2.0 * layer.state_space->state_size;
    traffic.inner_forward = traffic.inner_backward = {.all_reduces = 1};
  }
  if (layer.prediction_depth > 0) {
    // The product of hidden state and embedding is gathered; backward both gradients are summed up.
    ++traffic.forward.gathers;
    (sequence_parallel ? traffic.backward.scatters : traffic.backward.all_reduces) += 2;
  }
  return traffic;
}

}  // namespace parplan
