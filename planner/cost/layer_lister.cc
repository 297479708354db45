#include "planner/cost/layer_lister.h"

#include <optional>

namespace parplan {

void LayerLister::List() {
  switch (layer_.kind) {
    case LayerKind::kEmbedding:
      return Embedding();
    case LayerKind::kPatchEmbedding:
      Linear(Cut::kColumns, tokens_, layer_.vocabulary_size, layer_.hidden_size / tensor_, true);
      return;
    case LayerKind::kHead:
      return Head();
    case LayerKind::kOpaque:
      // Only measured.
      return;
    case LayerKind::kStateSpace:
      StateSpacePart(*layer_.state_space);
      return FeedForward();
    case LayerKind::kFeedForward:
      return FeedForward();
    case LayerKind::kDecoder:
      Prediction();
      Attention(true);
      return FeedForward();
    case LayerKind::kEncoder:
      Attention(false);
      return FeedForward();
    case LayerKind::kCrossDecoder:
      Attention(true);
      Attention(false);
      return FeedForward();
  }
}

void LayerLister::QuantiseBoth(double inputs, double gradients) {
  Quantise(inputs, forward_);
  Quantise(gradients, backward_,
           is_rotated_ ? gradients * quantised_copy_count_ / kRoundedByOneNumber : 0.0);
}

void LayerLister::Linear(Cut cut, double rows, double inner, double columns, bool has_bias,
                         double batch_count) {
  QuantiseBoth(rows * inner * batch_count, rows * columns * batch_count);
  // Backward a map split by columns needs no collective for the gradient of its input, which is on
  // its way while that of the weights is computed; one split by rows reads a gathered gradient.
  const bool by_columns = cut == Cut::kColumns;
  forward_.AddProduct(LinearShape(rows, columns, inner, batch_count), CollectiveShade::kSplit);
  backward_.AddProduct(LinearShape(rows, inner, columns, batch_count),
                       by_columns ? CollectiveShade::kNone : CollectiveShade::kSplit);
  if (layer_.frozen) return Adapter(rows, inner, columns, batch_count);
  backward_.AddProduct(LinearShape(inner, columns, rows, batch_count),
                       by_columns ? CollectiveShade::kWhole : CollectiveShade::kNone);
  backward_.MarkOfWeights();
  AccumulateGradient(inner * columns * batch_count);
  if (!has_bias) return;
  backward_.AddElementwise(rows * columns * element_);
  // The bias and its gradient's sum are small.
  backward_.AddLaunches(1);
}

void LayerLister::Adapter(double rows, double inner, double columns, double batch_count) {
  const double rank = adapter_rank_;
  if (rank == 0.0) return;
  forward_.AddProduct({rows, rank, inner, batch_count});
  forward_.AddProduct({rows, columns, rank, batch_count});
  const double output = rows * columns * batch_count;
  forward_.AddElementwise(Traffic(2.0 * output, output));
  backward_.AddProduct({rank, columns, rows, batch_count});
  backward_.AddProduct({rows, rank, columns, batch_count});
  backward_.AddProduct({inner, rank, rows, batch_count});
  backward_.AddProduct({rows, inner, rank, batch_count});
  const double input = rows * inner * batch_count;
  backward_.AddElementwise(Traffic(2.0 * input, input));
  AccumulateGradient((inner + columns) * rank * batch_count);
}

void LayerLister::Copied(double rows, double inner, double columns, bool is_quantised) {
  if (is_quantised) QuantiseBoth(rows * inner, rows * columns);
  forward_.AddProduct({rows, columns, inner, 1.0, is_quantised});
  backward_.AddProduct({rows, inner, columns, 1.0, is_quantised});
  if (layer_.frozen) return;
  backward_.AddProduct({inner, columns, rows, 1.0, is_quantised});
  backward_.MarkOfWeights();
  AccumulateGradient(inner * columns);
}

void LayerLister::AccumulateGradient(double parameter_count) {
  const double buffer = GradientBytes();
  if (runtime_.fused_gradient_accumulation) {
    // The product's own epilogue reads and writes the buffer; the product already
    // counts writing the gradient.
    backward_.AddElementwise(parameter_count * (2.0 * buffer - element_), 0);
  } else {
    backward_.AddElementwise(parameter_count * (element_ + 2.0 * buffer));
  }
  backward_.MarkOfWeights();
}

void LayerLister::Norm() {
  if (!runtime_.fused_elementwise && !has_bias_) {
    // A root-mean-square norm operator by operator, in 32 bits: widened, squared,
    // averaged, scaled, narrowed, weighted; backwards twice that.
    const double bytes = residual_ * (4.0 * element_ + 28.0);
    AddForwardElementwise(bytes, 6);
    backward_.AddElementwise(2.0 * bytes, 10);
    return;
  }
  AddForwardElementwise(Traffic(residual_, residual_));
  // The gradient of the input; the sums for scale and shift read both again.
  backward_.AddElementwise(Traffic(4.0 * residual_, residual_), 2);
  if (!runtime_.fused_gradient_accumulation) backward_.AddLaunches(has_bias_ ? 2 : 1);
}

void LayerLister::AddResidual() {
  const double mask = runtime_.hidden_dropout ? residual_ : 0.0;
  if (runtime_.fused_elementwise) {
    forward_.AddElementwise(Traffic(2.0 * residual_, residual_) + mask, 1, mask);
  } else {
    if (has_bias_) forward_.AddElementwise(Traffic(residual_, residual_));
    if (runtime_.hidden_dropout) {
      forward_.AddElementwise(Traffic(residual_, residual_) + mask, 1, mask);
    }
    forward_.AddElementwise(Traffic(2.0 * residual_, residual_));
  }
  if (runtime_.hidden_dropout) backward_.AddElementwise(Traffic(residual_, residual_) + mask);
  // The gradients of the block's input and of the residual are added up.
  backward_.AddElementwise(Traffic(2.0 * residual_, residual_));
}

void LayerLister::TensorCollectives(int forward_count, int backward_count) {
  if (shape_.tensor_parallel_degree == 1) return;
  forward_.AddLaunches(forward_count);
  backward_.AddLaunches(backward_count);
}

void LayerLister::FeedForward() {
  if (!layer_.has_feed_forward()) return;
  using Module = RecomputeModule;
  adapter_rank_ = layer_.feed_forward_adapter_rank;
  {
    const Within norm(forward_, layer_.has_experts() ? Module::kNorms : Module::kFeedForward);
    Norm();
  }
  {
    const Within part(forward_, layer_.has_experts() ? Module::kExperts : Module::kFeedForward);
    if (!layer_.has_experts()) {
      const double width = layer_.feed_forward_size / tensor_;
      Dense(tokens_, layer_.hidden_size, width, 1.0);
      last_forward_product_ = LinearShape(tokens_, layer_.hidden_size, width, 1.0);
    } else {
      Experts();
    }
    const bool exchanges_here =
        shape_.expert_tensor_parallel_degree == 0 || layer_.shared_expert_feed_forward_size > 0;
    if (exchanges_here) TensorCollectives(2, shape_.sequence_parallel ? 3 : 1);
  }
  AddResidual();
}

void LayerLister::Dense(double rows, double hidden, double width, double batch_count,
                        std::optional<RecomputeModule> activation_module) {
  const double elements = rows * width * batch_count;
  const bool gated = layer_.feed_forward_kind == FeedForwardKind::kSwiglu;
  Linear(Cut::kColumns, rows, hidden, (gated ? 2.0 : 1.0) * width, has_bias_, batch_count);
  if (gated) RecomputeProduct(rows, width, hidden, batch_count);
  std::optional<Within> activation;
  if (activation_module.has_value()) activation.emplace(forward_, activation_module);
  if (gated && runtime_.fused_elementwise) {
    AddForwardElementwise(Traffic(2.0 * elements, elements));
    backward_.AddElementwise(Traffic(3.0 * elements, 2.0 * elements));
  } else if (gated) {
    // The gate's function, then its product with the other half.
    AddForwardElementwise(Traffic(3.0 * elements, 2.0 * elements), 2);
    backward_.AddElementwise(Traffic(5.0 * elements, 3.0 * elements), 3);
  } else {
    if (has_bias_ && !runtime_.fused_elementwise) {
      AddForwardElementwise(Traffic(elements, elements));
    }
    AddForwardElementwise(Traffic(elements, elements));
    backward_.AddElementwise(Traffic(2.0 * elements, elements));
  }
  activation.reset();
  Linear(Cut::kRows, rows, width, hidden, has_bias_, batch_count);
}

void LayerLister::Experts() {
  const double hidden = layer_.hidden_size;
  const double latent = layer_.expert_latent_size;
  const double width = layer_.expert_width();
  const int own_tensor = shape_.expert_tensor_parallel_degree;
  const double expert_tensor = own_tensor > 0 ? own_tensor : tensor_;
  // Ranks that share an expert gather the tokens of all of them.
  const double routed =
      tokens_ * layer_.experts_per_token * shape_.expert_load * (expert_tensor / tensor_);
  const double own_experts =
      static_cast<double>(layer_.expert_count) / shape_.expert_parallel_degree;
  // The router, its softmax and its choice.
  const double own_rows = residual_ / hidden;
  Copied(own_rows, hidden, layer_.expert_count, /*is_quantised=*/false);
  forward_.AddLaunches(8);
  backward_.AddLaunches(8);
  const bool is_quantised = quantisation_.has_value();
  if (latent > 0.0) {
    Copied(own_rows, hidden, latent, is_quantised);
    Copied(own_rows, latent, hidden, is_quantised);
  }
  // Tokens sorted by expert and back; once each way if the exchange sorts them too.
  const bool sorts = runtime_.expert_exchange == ExpertExchange::kOnceARank;
  const double moved = Traffic(2.0 * routed * width, 2.0 * routed * width) * (sorts ? 0.5 : 1.0);
  forward_.AddElementwise(moved, sorts ? 2 : 4);
  backward_.AddElementwise(moved, sorts ? 2 : 4);
  const int launches_before = forward_.LaunchCount();
  if (shape_.expert_parallel_degree > 1) {
    forward_.AddLaunches(2);
    backward_.AddLaunches(2);
  }
  // Experts get equal shares of the tokens: `expert_parallel_degree` times fewer experts work for
  // as many more ranks, so the number of rows stays that of this rank's tokens.
  if (own_tensor > 1) {
    forward_.AddLaunches(2);
    backward_.AddLaunches(2);
  }
  Dense(routed / own_experts, width, layer_.expert_feed_forward_size / expert_tensor, own_experts,
        RecomputeModule::kExpertActivation);
  if (runtime_.launches_each_expert && own_experts > 1.0) {
    // Two products forward, four backward, and as many tensors quantised as there are maps; the
    // grouped kernel is one of each.
    const double quantised = quantisation_.has_value() ? 2.0 * QuantisationReads() : 0.0;
    forward_.AddLaunches(static_cast<int>((2.0 + quantised) * (own_experts - 1.0)));
    backward_.AddLaunches(static_cast<int>((4.0 + quantised) * (own_experts - 1.0)));
  }
  if (runtime_.reads_expert_counts) {
    awaited_launch_count_ = forward_.LaunchCount() - launches_before;
  }
  if (layer_.shared_expert_feed_forward_size > 0) {
    const Within shared(forward_, RecomputeModule::kSharedExperts);
    Dense(tokens_, hidden, layer_.shared_expert_feed_forward_size / tensor_, 1.0);
  }
}

void LayerLister::Embedding() {
  const double elements = tokens_ * layer_.hidden_size;
  const double table = static_cast<double>(layer_.hidden_size) * layer_.vocabulary_size / tensor_;
  // Rows looked up, positions added.
  forward_.AddElementwise(Traffic(2.0 * elements, 2.0 * elements), 2);
  if (runtime_.hidden_dropout) {
    forward_.AddElementwise(Traffic(residual_, residual_) + residual_, 1, residual_);
    if (!layer_.frozen) backward_.AddElementwise(Traffic(residual_, residual_) + residual_);
  }
  TensorCollectives(1, shape_.sequence_parallel ? 1 : 0);
  if (!layer_.frozen) {
    // The gradient is a whole table: zeroed, rows added, then accumulated.
    backward_.AddElementwise(Traffic(elements, elements) + table * element_, 3);
    backward_.AddElementwise(table * (element_ + 2.0 * GradientBytes()));
  }
  // Batches loaded, positions and masks made.
  forward_.AddLaunches(kBatchLaunches);
}

void LayerLister::Head() {
  const double vocabulary = layer_.vocabulary_size / tensor_;
  // Positions times the tokens predicted at each.
  const double predictions = tokens_ * (1 + layer_.further_token_count);
  const double logits = predictions * vocabulary;
  Norm();
  Linear(Cut::kColumns, predictions, layer_.hidden_size, vocabulary, false);
  TensorCollectives(4 * (1 + layer_.further_token_count), 1 + layer_.further_token_count);
  const double wide = runtime_.fp32_logits ? 4.0 : element_;
  if (runtime_.fp32_logits) {
    forward_.AddElementwise(logits * (element_ + wide));
    backward_.AddElementwise(logits * (element_ + wide));
  }
  if (runtime_.fused_cross_entropy) {
    forward_.AddElementwise(logits * 2.0 * wide, 3);
    backward_.AddElementwise(logits * 2.0 * wide, 2);
  } else {
    // Maximum, difference, exponential, sum, quotient; then the quotient less one,
    // times the gradient of the loss.
    forward_.AddElementwise(logits * (1 + 2 + 2 + 1 + 2) * wide, 16);
    backward_.AddElementwise(logits * 2.0 * wide, 6);
  }
}

}  // namespace parplan
