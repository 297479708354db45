// Operations before the feed-forward part: attention of every form, state spaces, and what comes
// before a layer that predicts a further token.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "planner/cost/layer_lister.h"
#include "planner/model/attention_mask.h"
#include "planner/model/layer_flops.h"
#include "planner/model/layer_matrices.h"

namespace parplan {
namespace {

// Returns the factor by which fused attention takes longer for its FLOPs than with long sequences,
// if every head alone takes `heads` times as long. Tiles on the diagonal are computed whole, and
// each row of tiles has a beginning and an end: read from the speed that FlashAttention-2 loses
// from 16,384 tokens to 512 (its figures 5 and 6; FlashAttention-3, figure 5).
//
// `visible` is the share of pairs that a window leaves: the diagonal is as long as before. So is
// the other edge of a window nearly, whose tiles are computed whole too; it is as long as the
// tokens that reach beyond their window, `outside`, at most half a tile for each (fewer if the
// window leaves only a corner out, so that a longer window is never faster).
double FusedAttentionSlowdown(bool causal, double heads, double sequence, double visible,
                              double outside) {
  constexpr double kHalfTile = 128.0;
  if (visible == 1.0) return heads * (1.0 + (causal ? 256.0 : 80.0) / sequence);
  const double pairs = visible * sequence * sequence * (causal ? 0.5 : 1.0);
  const double edges = (causal ? 1.0 : 2.0) * outside * std::min(kHalfTile, outside / 4.0);
  return heads * (1.0 + ((causal ? 128.0 : 80.0) * sequence + edges) / pairs);
}

}  // namespace

void LayerLister::ContextCollectives() {
  if (shape_.context_kind == ContextKind::kAllGather) {
    // Keys and values; backward also their gradients.
    forward_.AddLaunches(2);
    backward_.AddLaunches(4);
  }
  if (core_rank_count_ == 1.0) return;
  forward_.AddLaunches(4);
  backward_.AddLaunches(4);
}

void LayerLister::QueriesKeysAndValues(double query, double key, double value) {
  if (!layer_.latent_attention.has_value()) {
    Linear(Cut::kColumns, tokens_, layer_.hidden_size, query + (key + value), has_bias_);
    TensorCollectives(1, 1);
    // Every second product is repeated: keys, and the output, which is the fourth product.
    RecomputeProduct(tokens_, key, layer_.hidden_size);
    RecomputeProduct(tokens_, layer_.hidden_size, query);
    return;
  }
  // The maps to narrow vectors are whole on every rank: each makes those of its tokens.
  const LatentAttention& latent = *layer_.latent_attention;
  const double hidden = layer_.hidden_size;
  const double own_tokens = residual_ / hidden;
  if (latent.query_rank > 0) {
    Linear(Cut::kRows, own_tokens, hidden, latent.query_rank, false);
    const Within up(forward_, RecomputeModule::kLatentUpProjection);
    RowNorm(own_tokens * latent.query_rank);
    Linear(Cut::kColumns, tokens_, latent.query_rank, query, false);
    RecomputeProduct(own_tokens, latent.query_rank, hidden);
  } else {
    const Within up(forward_, RecomputeModule::kLatentUpProjection);
    Linear(Cut::kColumns, tokens_, hidden, query, false);
  }
  const double compressed = latent.key_value_rank + latent.rotary_head_size;
  Linear(Cut::kRows, own_tokens, hidden, compressed, false);
  const Within from_compressed(forward_, RecomputeModule::kLatentUpProjection);
  RowNorm(own_tokens * latent.key_value_rank);
  const double heads = layer_.attention_head_count / tensor_;
  const double up = heads * (layer_.head_size - latent.rotary_head_size) + value;
  Linear(Cut::kColumns, tokens_, latent.key_value_rank, up, false);
  RecomputeProduct(own_tokens, compressed, hidden);
  RecomputeProduct(tokens_, up, latent.key_value_rank);
  TensorCollectives(latent.query_rank > 0 ? 2 : 1, 2);
  // Keys and values are taken apart, and each head's key gets the common part.
  AddForwardElementwise(Traffic(tokens_ * (up + latent.rotary_head_size), tokens_ * (key + value)),
                        2);
  backward_.AddElementwise(
      Traffic(tokens_ * (key + value), tokens_ * (up + latent.rotary_head_size)), 2);
}

void LayerLister::Attention(bool causal) {
  const AttentionWidths widths = AttentionWidthsOf(layer_);
  const double heads = layer_.attention_head_count / tensor_;
  const double query = heads * static_cast<double>(widths.key_head);
  const double output = heads * static_cast<double>(widths.value_head);
  const double key_value_heads = layer_.key_value_head_count / tensor_;
  const double key = key_value_heads * static_cast<double>(widths.key_head);
  const double value = key_value_heads * static_cast<double>(widths.value_head);
  const bool unfused = runtime_.attention_kernel == AttentionKernel::kUnfused;
  adapter_rank_ = layer_.attention_adapter_rank;
  {
    const Within norm(forward_, layer_.latent_attention.has_value()
                                    ? std::optional(RecomputeModule::kNorms)
                                    : std::nullopt);
    Norm();
  }
  QueriesKeysAndValues(query, key, value);
  const double projected = tokens_ * (query + (key + value));
  if (has_bias_ && unfused) forward_.AddElementwise(Traffic(projected, projected));
  if (!has_bias_) {
    // Rotary embedding of queries and keys.
    const Within up(forward_, IfAny(RecomputeModule::kLatentUpProjection));
    const double rotated = tokens_ * (query + key);
    if (runtime_.fused_elementwise) {
      AddForwardElementwise(Traffic(rotated, rotated), 2);
      backward_.AddElementwise(Traffic(rotated, rotated), 2);
    } else {
      // Widened, rotated, narrowed.
      AddForwardElementwise(rotated * (2.0 * element_ + 16.0), 6);
      backward_.AddElementwise(rotated * (2.0 * element_ + 16.0), 6);
    }
  }
  ContextCollectives();
  const auto key_head = static_cast<double>(widths.key_head);
  const auto value_head = static_cast<double>(widths.value_head);
  if (unfused) {
    {
      const Within core(forward_, RecomputeModule::kCoreAttention);
      UnfusedAttention(samples_ * heads / core_rank_count_, key_head, value_head);
    }
    // Heads side by side again; gradients of queries, keys and values in one.
    forward_.AddElementwise(Traffic(tokens_ * output, tokens_ * output));
    backward_.AddElementwise(Traffic(tokens_ * output, tokens_ * output));
    backward_.AddElementwise(Traffic(projected, projected), 3);
  } else {
    FusedAttention(causal, heads, 0.5 * (key_head + value_head));
    backward_.AddElementwise(Traffic(projected, projected));
  }
  Linear(Cut::kRows, tokens_, output, layer_.hidden_size, has_bias_);
  TensorCollectives(1, shape_.sequence_parallel ? 2 : 0);
  AddResidual();
}

int LayerLister::FusedAttentionKernels() const {
  switch (shape_.context_kind) {
    case ContextKind::kUlysses:
      return 1;
    case ContextKind::kAllGather:
      // One for each of a rank's two pieces (Transformer Engine, AttnFuncWithCPAndKVAllGather).
      return 2;
    case ContextKind::kRing:
      break;
  }
  return shape_.context_parallel_degree / shape_.context_exchange_degree;
}

void LayerLister::FusedAttention(bool causal, double heads, double head_size) {
  const bool has_window = causal || layer_.kind == LayerKind::kEncoder;
  const double visible = has_window ? VisibleShare(layer_, causal, sequence_) : 1.0;
  const double outside =
      layer_.attention_window > 0 ? std::max(0.0, sequence_ - layer_.attention_window) : 0.0;
  const double flops =
      (causal ? 2.0 : 4.0) * samples_ * heads * head_size * own_sequence_ * sequence_ * visible;
  const double slowdown = FusedAttentionSlowdown(causal, exponentials_.Slowdown(head_size),
                                                 sequence_, visible, outside);
  const int kernel_count = FusedAttentionKernels();
  forward_.AddFusedAttention(flops, slowdown, kernel_count);
  if (runtime_.RepeatsCoreAttention()) {
    selective_.AddFusedAttention(flops, slowdown, kernel_count);
  }
  // The scores again, and four products (FlashAttention-2, section 3.1).
  backward_.AddFusedAttention(2.5 * flops, slowdown, 3 * kernel_count);
}

void LayerLister::Prediction() {
  if (layer_.prediction_depth == 0) return;
  const double elements = tokens_ * layer_.hidden_size;
  forward_.AddElementwise(Traffic(elements, elements));
  const double table = static_cast<double>(layer_.hidden_size) * layer_.vocabulary_size / tensor_;
  if (!layer_.frozen) {
    backward_.AddElementwise(Traffic(elements, elements) + table * element_, 3);
  }
  for (int i = 0; i < 3; ++i) Norm();
  Linear(Cut::kColumns, tokens_, 2.0 * layer_.hidden_size, layer_.hidden_size / tensor_, false);
  TensorCollectives(1, 2);
}

void LayerLister::StateSpacePart(const StateSpace& space) {
  const double hidden = layer_.hidden_size;
  const double inner = space.inner_size / tensor_;
  const double states = space.group_count * space.state_size / tensor_;
  const bool is_selective = space.kind == StateSpaceKind::kSelective;
  Norm();
  Linear(Cut::kColumns, tokens_, hidden, ProjectedWidth(space) / tensor_, false);
  TensorCollectives(1, 1);
  // The convolution and its activation.
  const double channels = tokens_ * (is_selective ? inner : inner + 2.0 * states);
  forward_.AddElementwise(Traffic(channels, channels));
  backward_.AddElementwise(Traffic(2.0 * channels, channels), 2);
  const ScanFlops scan = ScanFlopsPerToken(space, layer_.sequence_length);
  const double vector_flops = tokens_ * scan.vectors / tensor_;
  if (is_selective) {
    const double projections = space.time_step_rank + 2.0 * space.state_size;
    Linear(Cut::kRows, tokens_, inner, projections, false);
    TensorCollectives(1, 1);
    Linear(Cut::kColumns, tokens_, space.time_step_rank, inner, false);
    // One kernel reads inputs, gates, time steps and projections. Its backward pass makes the
    // states again.
    const double read = tokens_ * (3.0 * inner + 2.0 * space.state_size);
    forward_.AddScan(Traffic(read, tokens_ * inner), vector_flops);
    backward_.AddScan(Traffic(2.0 * read, read), 3.0 * vector_flops);
  } else {
    ChunkedScan(space, inner, states, vector_flops);
    // The gate and the norm.
    forward_.AddElementwise(Traffic(2.0 * tokens_ * inner, tokens_ * inner));
    backward_.AddElementwise(Traffic(4.0 * tokens_ * inner, 2.0 * tokens_ * inner), 2);
  }
  Linear(Cut::kRows, tokens_, inner, hidden, false);
  TensorCollectives(1, shape_.sequence_parallel ? 2 : 0);
  AddResidual();
}

void LayerLister::ActivationProduct(double rows, double columns, double depth, double batch_count) {
  forward_.AddProduct({rows, columns, depth, batch_count});
  backward_.AddProduct({rows, depth, columns, batch_count});
  backward_.AddProduct({depth, columns, rows, batch_count});
}

void LayerLister::ChunkedScan(const StateSpace& space, double inner, double states,
                              double vector_flops) {
  const double chunk = ScanChunk(space, layer_.sequence_length);
  const double chunk_count = tokens_ / chunk;
  const double heads = space.head_count / tensor_;
  const double groups = space.group_count / tensor_;
  const double width = inner / heads;
  const double state = space.state_size;
  if (space.kind == StateSpaceKind::kDual) {
    ActivationProduct(chunk, chunk, state, chunk_count * groups);
    ActivationProduct(chunk, width, chunk, chunk_count * heads);
    ActivationProduct(state, width, chunk, chunk_count * heads);
    ActivationProduct(chunk, width, state, chunk_count * heads);
  } else {
    // Keys among themselves, keys and values behind the inverse, queries with keys, scores with
    // values; the state with keys and queries, and its update.
    const double batch_count = chunk_count * heads;
    ActivationProduct(chunk, chunk, state, batch_count);
    ActivationProduct(chunk, state, chunk, batch_count);
    ActivationProduct(chunk, width, chunk, batch_count);
    ActivationProduct(chunk, chunk, state, batch_count);
    ActivationProduct(chunk, width, chunk, batch_count);
    ActivationProduct(chunk, width, state, batch_count);
    ActivationProduct(chunk, width, state, batch_count);
    ActivationProduct(state, width, chunk, batch_count);
  }
  // States between chunks in 32 bits, written and read.
  const double between = 8.0 * chunk_count * heads * width * state;
  const double read = tokens_ * (inner + 2.0 * states + heads);
  forward_.AddScan(Traffic(read, tokens_ * inner) + between, vector_flops, 5);
  backward_.AddScan(Traffic(2.0 * read, read) + 2.0 * between, 2.0 * vector_flops, 10);
}

void LayerLister::UnfusedAttention(double batch_count, double key_head, double value_head) {
  const double scores = batch_count * core_rows_ * sequence_;
  const bool fused = runtime_.fused_softmax && FusedSoftmaxTakes(batch_count);
  // Scaled, masked, widened to 32 bits, softmax, narrowed to 16 bits.
  const double casts = element_ < 4.0 ? 2.0 * (element_ + 4.0) * scores : 0.0;
  const ProductShape scoring{core_rows_, sequence_, key_head, batch_count};
  const ProductShape weighting{core_rows_, value_head, sequence_, batch_count};
  // From the gradient of the scores to those of the queries and of the keys.
  const ProductShape to_queries{core_rows_, key_head, sequence_, batch_count};
  const ProductShape to_keys{sequence_, key_head, core_rows_, batch_count};
  OperationList* const passes[] = {&forward_, &selective_};
  for (OperationList* pass : passes) {
    pass->AddProduct(scoring);
    if (fused) {
      pass->AddScores(Traffic(scores, scores));
    } else {
      pass->AddScores(Traffic(2.0 * scores, 2.0 * scores) + 8.0 * scores + casts,
                      casts > 0.0 ? 5 : 3);
    }
    if (runtime_.attention_dropout) {
      pass->AddScores(Traffic(scores, scores) + scores, 1, scores);
    }
    pass->AddProduct(weighting);
  }
  // Gradients of the probabilities and the values, then of the queries and the keys.
  backward_.AddProduct({core_rows_, sequence_, value_head, batch_count});
  backward_.AddProduct({sequence_, value_head, core_rows_, batch_count});
  if (runtime_.attention_dropout) backward_.AddScores(Traffic(scores, scores) + scores);
  if (fused) {
    backward_.AddScores(Traffic(2.0 * scores, scores));
  } else {
    backward_.AddScores(Traffic(2.0 * scores, 2.0 * scores) + 12.0 * scores + casts,
                        casts > 0.0 ? 5 : 3);
  }
  backward_.AddProduct(to_queries);
  backward_.AddProduct(to_keys);
}

}  // namespace parplan
