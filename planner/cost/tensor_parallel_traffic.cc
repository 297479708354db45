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
// one in the backward pass; sequence parallelism gathers its input once more for the gradients of
// the weights, unless it `keeps_inputs`.
TensorParallelTraffic TrafficOfParts(int count, bool sequence_parallel, bool keeps_inputs) {
  TensorParallelTraffic traffic;
  if (!sequence_parallel) {
    traffic.forward = traffic.backward = traffic.hidden = {.all_reduces = count};
    return traffic;
  }
  traffic.forward = traffic.hidden = {.gathers = count, .scatters = count};
  traffic.backward = {.gathers = keeps_inputs ? count : 2 * count, .scatters = count};
  return traffic;
}

// Replaces the exchanges at the input of latent attention: ranks exchange the compressed vectors,
// from which the split products start, and not the residual stream (Megatron Core,
// multi_latent_attention.py).
void ExchangeCompressedVectors(const LayerDefinition& layer, bool sequence_parallel,
                               bool keeps_inputs, TensorParallelTraffic& traffic) {
  traffic.inner_width = static_cast<double>(AttentionInputWidth(layer));
  if (!sequence_parallel) {
    --traffic.backward.all_reduces;
    traffic.inner_backward = {.all_reduces = 1};
  } else {
    --traffic.forward.gathers;
    --traffic.backward.scatters;
    traffic.inner_forward = {.gathers = 1};
    traffic.inner_backward = {.scatters = 1};
    if (!keeps_inputs) {
      --traffic.backward.gathers;
      traffic.inner_backward.gathers = 1;
    }
  }
  traffic.hidden = TrafficOfParts(1, sequence_parallel, keeps_inputs).hidden;
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
        traffic.backward = {.gathers = 1};
      }
      return traffic;
    case LayerKind::kHead: {
      const int predictions = 1 + layer.further_token_count;
      if (!sequence_parallel) {
        traffic.backward = {.all_reduces = predictions};
      } else {
        traffic.forward = {.gathers = runtime.logits_in_backward_pass ? 0 : predictions};
        traffic.backward = {.gathers = runtime.keeps_gathered_inputs ? 0 : predictions,
                            .scatters = predictions};
      }
      return traffic;
    }
    case LayerKind::kOpaque:
      // Its exchanges are given (`OpaqueExchange`).
      return traffic;
  }
  // A part for each norm.
  const bool keeps_inputs = runtime.keeps_gathered_inputs;
  int part_count = NormCount(layer);
  // Tokens leave for their experts from all ranks at once, and those of a shared expert do not.
  if (runtime.expert_exchange == ExpertExchange::kRows && layer.has_experts() &&
      layer.shared_expert_feed_forward_size > 0) {
    ++part_count;
  }
  if (experts_apart && layer.has_experts() && layer.shared_expert_feed_forward_size == 0) {
    --part_count;
  }
  traffic = TrafficOfParts(part_count, sequence_parallel, keeps_inputs);
  if (!sequence_parallel) traffic.backward.all_reduces += FurtherReductions(layer, runtime);
  if (layer.latent_attention.has_value()) {
    ExchangeCompressedVectors(layer, sequence_parallel, keeps_inputs, traffic);
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
