#include "planner/cost/layer_operations.h"

#include <cstdint>

#include "base/check.h"

namespace parplan {

LayerOperation& OperationList::Add(OperationKind kind, int kernel_count) {
  PARPLAN_CHECK(size_ < kCapacity);
  LayerOperation& operation = operations_[size_++];
  operation.kind = kind;
  operation.kernel_count = kernel_count;
  operation.product = ProductShape();
  operation.bytes = 0.0;
  operation.random_count = 0.0;
  operation.of_scores = false;
  operation.flops = 0.0;
  operation.slowdown = 1.0;
  operation.hides_collective = false;
  return operation;
}

void OperationList::AddProduct(const ProductShape& product, bool hides_collective) {
  LayerOperation& operation = Add(OperationKind::kMatrixProduct, 1);
  operation.product = product;
  operation.hides_collective = hides_collective;
}

void OperationList::AddElementwise(double bytes, int kernel_count, double random_count) {
  LayerOperation& operation = Add(OperationKind::kElementwise, kernel_count);
  operation.bytes = bytes;
  operation.random_count = random_count;
}

void OperationList::AddScores(double bytes, int kernel_count, double random_count) {
  AddElementwise(bytes, kernel_count, random_count);
  operations_[size_ - 1].of_scores = true;
}

void OperationList::AddFusedAttention(double flops, double slowdown, int kernel_count) {
  LayerOperation& operation = Add(OperationKind::kFusedAttention, kernel_count);
  operation.flops = flops;
  operation.slowdown = slowdown;
}

double OperationList::Flops() const {
  double flops = 0.0;
  for (const LayerOperation& operation : *this) {
    flops += operation.product.Flops() + operation.flops;
  }
  return flops;
}

int OperationList::LaunchCount() const {
  int count = extra_launch_count_;
  for (const LayerOperation& operation : *this) count += operation.kernel_count;
  return count;
}

namespace {

// Returns the factor by which fused attention takes longer for its FLOPs than with long sequences
// and heads of 128. Exponentials, whose number does not depend on the size of heads, cost as much
// as 20 more elements per head. Tiles on the diagonal are computed whole, and each row of tiles has
// a beginning and an end. Both constants are read from the speed that FlashAttention-2 loses from
// heads of 128 to 64 and from 16,384 tokens to 512 (its figures 5 and 6; FlashAttention-3, figure
// 5).
double FusedAttentionSlowdown(bool causal, double head_size, double sequence) {
  constexpr double kExponentials = 20.0;
  const double heads = (1.0 + kExponentials / head_size) / (1.0 + kExponentials / 128.0);
  return heads * (1.0 + (causal ? 256.0 : 80.0) / sequence);
}

// Lists the operations of one layer, block by block.
class Lister {
 public:
  Lister(const LayerDefinition& layer, Precision precision, const RuntimeTraits& runtime,
         const LayerShape& shape, double samples, LayerOperations& operations)
      : layer_(layer),
        runtime_(runtime),
        shape_(shape),
        forward_(operations.forward),
        backward_(operations.backward),
        selective_(operations.selective_recompute),
        last_forward_product_(operations.last_forward_product),
        by_operators_(runtime.selective_recompute == SelectiveRecompute::kOperators),
        element_(static_cast<double>(BytesPerElement(precision))),
        tensor_(shape.tensor_parallel_degree),
        samples_(samples),
        sequence_(layer.sequence_length),
        own_sequence_(sequence_ / shape.context_parallel_degree),
        tokens_(samples * own_sequence_),
        core_rank_count_(shape.context_kind == ContextKind::kUlysses ? shape.context_parallel_degree
                                                                     : 1.0),
        core_rows_(own_sequence_ * core_rank_count_),
        residual_((shape.sequence_parallel ? tokens_ / tensor_ : tokens_) * layer.hidden_size),
        has_bias_(layer.feed_forward_kind != FeedForwardKind::kSwiglu) {}

  void List() {
    switch (layer_.kind) {
      case LayerKind::kEmbedding:
        return Embedding();
      case LayerKind::kPatchEmbedding:
        Linear(Cut::kColumns, tokens_, layer_.vocabulary_size, layer_.hidden_size / tensor_, true);
        return;
      case LayerKind::kHead:
        return Head();
      case LayerKind::kDecoder:
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

 private:
  // Returns the bytes of reading `read` elements and writing `written`.
  double Traffic(double read, double written) const { return (read + written) * element_; }

  void AddForwardElementwise(double bytes, int kernel_count = 1, double random_count = 0.0) {
    forward_.AddElementwise(bytes, kernel_count, random_count);
    if (by_operators_) selective_.AddElementwise(bytes, kernel_count, random_count);
  }

  // Adds a product that selective recomputation of operators repeats.
  void RecomputeProduct(double rows, double columns, double inner, double batch_count = 1.0) {
    if (by_operators_) selective_.AddProduct({rows, columns, inner, batch_count});
  }

  // The way tensor parallelism splits the weights of a linear map. If by columns, the gradient of
  // the input is summed over the ranks.
  enum class Cut { kColumns, kRows };

  // Adds the product of rows x inner with the weights, and both gradients.
  void Linear(Cut cut, double rows, double inner, double columns, bool has_bias,
              double batch_count = 1.0) {
    forward_.AddProduct({rows, columns, inner, batch_count});
    backward_.AddProduct({rows, inner, columns, batch_count});
    backward_.AddProduct({inner, columns, rows, batch_count}, cut == Cut::kColumns);
    AccumulateGradient(inner * columns * batch_count);
    if (!has_bias) return;
    backward_.AddElementwise(rows * columns * element_);
    // The bias and its gradient's sum are small.
    backward_.AddLaunches(1);
  }

  // Adds a fresh gradient to the buffer.
  void AccumulateGradient(double parameter_count) {
    const double buffer = GradientBytes();
    if (runtime_.fused_gradient_accumulation) {
      // The product's own epilogue reads and writes the buffer; the product already
      // counts writing the gradient.
      backward_.AddElementwise(parameter_count * (2.0 * buffer - element_), 0);
    } else {
      backward_.AddElementwise(parameter_count * (element_ + 2.0 * buffer));
    }
  }

  void Norm() {
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

  // Adds bias, dropout and residual addition after a block.
  void AddResidual() {
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

  // Adds launches for the collectives of the ranks that share the layer.
  void TensorCollectives(int forward_count, int backward_count) {
    if (shape_.tensor_parallel_degree == 1) return;
    forward_.AddLaunches(forward_count);
    backward_.AddLaunches(backward_count);
  }

  // Adds launches for the exchanges of tokens for heads and back: queries, keys, values, and
  // output.
  void UlyssesCollectives() {
    if (core_rank_count_ == 1.0) return;
    forward_.AddLaunches(4);
    backward_.AddLaunches(4);
  }

  void Attention(bool causal) {
    const double heads = layer_.attention_head_count / tensor_;
    const double head_size = layer_.head_size;
    const double query = heads * head_size;
    const double key_value = layer_.key_value_head_count / tensor_ * head_size;
    const bool unfused = runtime_.attention_kernel == AttentionKernel::kUnfused;
    Norm();
    Linear(Cut::kColumns, tokens_, layer_.hidden_size, query + 2.0 * key_value, has_bias_);
    TensorCollectives(1, 1);
    // Every second product is repeated: keys, and the output, which is the fourth product.
    RecomputeProduct(tokens_, key_value, layer_.hidden_size);
    RecomputeProduct(tokens_, layer_.hidden_size, query);
    const double projected = tokens_ * (query + 2.0 * key_value);
    if (has_bias_ && unfused) forward_.AddElementwise(Traffic(projected, projected));
    if (!has_bias_) {
      // Rotary embedding of queries and keys.
      const double rotated = tokens_ * (query + key_value);
      if (runtime_.fused_elementwise) {
        AddForwardElementwise(Traffic(rotated, rotated), 2);
        backward_.AddElementwise(Traffic(rotated, rotated), 2);
      } else {
        // Widened, rotated, narrowed.
        AddForwardElementwise(rotated * (2.0 * element_ + 16.0), 6);
        backward_.AddElementwise(rotated * (2.0 * element_ + 16.0), 6);
      }
    }
    UlyssesCollectives();
    if (unfused) {
      UnfusedAttention(samples_ * heads / core_rank_count_, head_size);
      // Heads side by side again; gradients of queries, keys and values in one.
      forward_.AddElementwise(Traffic(tokens_ * query, tokens_ * query));
      backward_.AddElementwise(Traffic(tokens_ * query, tokens_ * query));
      backward_.AddElementwise(Traffic(projected, projected), 3);
    } else {
      const double flops =
          (causal ? 2.0 : 4.0) * samples_ * heads * head_size * own_sequence_ * sequence_;
      const double slowdown = FusedAttentionSlowdown(causal, head_size, sequence_);
      const int kernel_count = core_rank_count_ > 1.0 ? 1 : shape_.context_parallel_degree;
      forward_.AddFusedAttention(flops, slowdown, kernel_count);
      // The scores again, and four products (FlashAttention-2, section 3.1).
      backward_.AddFusedAttention(2.5 * flops, slowdown, 3 * kernel_count);
      backward_.AddElementwise(Traffic(projected, projected));
    }
    Linear(Cut::kRows, tokens_, query, layer_.hidden_size, has_bias_);
    TensorCollectives(1, shape_.sequence_parallel ? 2 : 0);
    AddResidual();
  }

  // Returns the bytes of an element of the buffer in which gradients are summed up.
  double GradientBytes() const { return element_ < 4.0 ? runtime_.gradient_bytes : 4.0; }

  // Adds scores, softmax, dropout and the product with the values for `batch_count` heads.
  void UnfusedAttention(double batch_count, double head_size) {
    const double scores = batch_count * core_rows_ * sequence_;
    const bool fused = runtime_.fused_softmax && FusedSoftmaxTakes(batch_count);
    // Scaled, masked, widened to 32 bits, softmax, narrowed to 16 bits.
    const double casts = element_ < 4.0 ? 2.0 * (element_ + 4.0) * scores : 0.0;
    const ProductShape scoring{core_rows_, sequence_, head_size, batch_count};
    const ProductShape weighting{core_rows_, head_size, sequence_, batch_count};
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
    backward_.AddProduct(scoring);
    backward_.AddProduct({sequence_, head_size, core_rows_, batch_count});
    if (runtime_.attention_dropout) backward_.AddScores(Traffic(scores, scores) + scores);
    if (fused) {
      backward_.AddScores(Traffic(2.0 * scores, scores));
    } else {
      backward_.AddScores(Traffic(2.0 * scores, 2.0 * scores) + 12.0 * scores + casts,
                          casts > 0.0 ? 5 : 3);
    }
    backward_.AddProduct(weighting);
    backward_.AddProduct({sequence_, head_size, core_rows_, batch_count});
  }

  void FeedForward() {
    Norm();
    if (layer_.expert_count == 0) {
      const double width = layer_.feed_forward_size / tensor_;
      Dense(tokens_, width, 1.0);
      last_forward_product_ = {tokens_, static_cast<double>(layer_.hidden_size), width, 1.0};
    } else {
      Experts();
    }
    TensorCollectives(2, shape_.sequence_parallel ? 3 : 1);
    AddResidual();
  }

  // The fused kernels take four heads a block (Megatron-LM, fused_softmax.py,
  // is_kernel_available); other numbers fall back. A fraction is an average of shapes.
  static bool FusedSoftmaxTakes(double batch_count) {
    const auto whole = static_cast<int64_t>(batch_count);
    return static_cast<double>(whole) != batch_count || whole % 4 == 0;
  }

  // Adds two linear maps and the operations between them, `batch_count` times.
  void Dense(double rows, double width, double batch_count) {
    const double hidden = layer_.hidden_size;
    const double elements = rows * width * batch_count;
    const bool gated = layer_.feed_forward_kind == FeedForwardKind::kSwiglu;
    Linear(Cut::kColumns, rows, hidden, (gated ? 2.0 : 1.0) * width, has_bias_, batch_count);
    if (gated) RecomputeProduct(rows, width, hidden, batch_count);
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
    Linear(Cut::kRows, rows, width, hidden, has_bias_, batch_count);
  }

  void Experts() {
    const double hidden = layer_.hidden_size;
    const double routed = tokens_ * layer_.experts_per_token;
    const double own_experts =
        static_cast<double>(layer_.expert_count) / shape_.expert_parallel_degree;
    // The router, its softmax and its choice.
    Linear(Cut::kRows, residual_ / hidden, hidden, layer_.expert_count, false);
    forward_.AddLaunches(8);
    backward_.AddLaunches(8);
    // Tokens sorted by expert and back.
    const double moved = Traffic(2.0 * routed * hidden, 2.0 * routed * hidden);
    forward_.AddElementwise(moved, 4);
    backward_.AddElementwise(moved, 4);
    if (shape_.expert_parallel_degree > 1) {
      forward_.AddLaunches(2);
      backward_.AddLaunches(2);
    }
    // Experts get equal shares of the tokens: `expert_parallel_degree` times fewer experts work for
    // as many more ranks, so the number of rows stays that of this rank's tokens.
    Dense(routed / own_experts, layer_.expert_feed_forward_size / tensor_, own_experts);
    if (layer_.shared_expert_feed_forward_size > 0) {
      Dense(tokens_, layer_.shared_expert_feed_forward_size / tensor_, 1.0);
    }
  }

  void Embedding() {
    const double elements = tokens_ * layer_.hidden_size;
    const double table = static_cast<double>(layer_.hidden_size) * layer_.vocabulary_size / tensor_;
    // Rows looked up, positions added.
    forward_.AddElementwise(Traffic(2.0 * elements, 2.0 * elements), 2);
    if (runtime_.hidden_dropout) {
      forward_.AddElementwise(Traffic(residual_, residual_) + residual_, 1, residual_);
      backward_.AddElementwise(Traffic(residual_, residual_) + residual_);
    }
    TensorCollectives(1, shape_.sequence_parallel ? 1 : 0);
    // The gradient is a whole table: zeroed, rows added, then accumulated.
    backward_.AddElementwise(Traffic(elements, elements) + table * element_, 3);
    backward_.AddElementwise(table * (element_ + 2.0 * GradientBytes()));
    // Batches loaded, positions and masks made.
    forward_.AddLaunches(kBatchLaunches);
  }

  void Head() {
    const double vocabulary = layer_.vocabulary_size / tensor_;
    const double logits = tokens_ * vocabulary;
    Norm();
    Linear(Cut::kColumns, tokens_, layer_.hidden_size, vocabulary, false);
    TensorCollectives(4, 1);
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

  // Small kernels around a micro-batch: tokens copied in and spread, masks, positions.
  static constexpr int kBatchLaunches = 20;

  const LayerDefinition& layer_;
  const RuntimeTraits& runtime_;
  const LayerShape& shape_;
  OperationList& forward_;
  OperationList& backward_;
  OperationList& selective_;
  ProductShape& last_forward_product_;
  // Selective recomputation does all element-wise work again.
  const bool by_operators_;
  const double element_;
  const double tensor_;
  const double samples_;
  const double sequence_;
  const double own_sequence_;
  const double tokens_;
  // The number of ranks that share the heads of attention, and its rows of scores: those of all
  // tokens if ranks share heads, else those of the rank's own tokens.
  const double core_rank_count_;
  const double core_rows_;
  // Elements of the residual stream on this device.
  const double residual_;
  const bool has_bias_;
};

}  // namespace

void ListOperations(const LayerDefinition& layer, Precision precision, const RuntimeTraits& runtime,
                    const LayerShape& shape, double samples, LayerOperations& operations) {
  Lister(layer, precision, runtime, shape, samples, operations).List();
}

}  // namespace parplan
