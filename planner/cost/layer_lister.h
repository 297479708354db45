// Lists the operations of one layer, part by part. Internal to layer_operations.h.

#ifndef PARPLAN_PLANNER_COST_LAYER_LISTER_H_
#define PARPLAN_PLANNER_COST_LAYER_LISTER_H_

#include <cstdint>
#include <optional>

#include "planner/cost/layer_operations.h"
#include "planner/model/layer_matrices.h"
#include "planner/model/layer_precision.h"

namespace parplan {

// Appends to the lists of `operations`, which abort beyond `OperationList::kCapacity`. The
// arguments of the constructor must outlive it; nothing checks that they go together.
// `ListOperations` makes one for each call. Sizes of one rank are quotients of the layer's and may
// be fractions.
class LayerLister {
 public:
  LayerLister(const LayerDefinition& layer, Precision precision, const RuntimeTraits& runtime,
              const LayerShape& shape, double samples, int quantised_copy_count,
              const ExponentialCost& exponentials, LayerOperations& operations)
      : layer_(layer),
        runtime_(runtime),
        shape_(shape),
        forward_(operations.forward),
        backward_(operations.backward),
        selective_(operations.selective_recompute),
        last_forward_product_(operations.last_forward_product),
        awaited_launch_count_(operations.awaited_launch_count),
        by_operators_(runtime.selective_recompute == SelectiveRecompute::kOperators),
        element_(static_cast<double>(BytesPerElement(precision))),
        quantisation_(QuantisationOf(layer, precision)),
        quantised_copy_count_(quantised_copy_count),
        is_rotated_(IsRotated(layer, precision)),
        exponentials_(exponentials),
        tensor_(shape.tensor_parallel_degree),
        samples_(samples),
        sequence_(layer.sequence_length),
        own_sequence_(sequence_ / shape.context_parallel_degree),
        tokens_(samples * own_sequence_),
        core_rank_count_(shape.context_kind == ContextKind::kUlysses
                             ? shape.context_parallel_degree
                             : shape.context_exchange_degree),
        core_rows_(own_sequence_ * core_rank_count_),
        residual_((shape.sequence_parallel ? tokens_ / tensor_ : tokens_) * layer.hidden_size),
        has_bias_(layer.feed_forward_kind != FeedForwardKind::kSwiglu &&
                  layer.feed_forward_kind != FeedForwardKind::kAbsent) {}

  // Lists the operations of the layer, whatever its kind; none for an opaque layer. To be called
  // once.
  void List();

 private:
  // Returns the bytes of reading `read` elements and writing `written`.
  double Traffic(double read, double written) const { return (read + written) * element_; }

  void AddForwardElementwise(double bytes, int kernel_count = 1, double random_count = 0.0) {
    forward_.AddElementwise(bytes, kernel_count, random_count);
    if (by_operators_) selective_.AddElementwise(bytes, kernel_count, random_count);
  }

  // Adds a product that selective recomputation of operators repeats.
  void RecomputeProduct(double rows, double columns, double inner, double batch_count = 1.0) {
    if (by_operators_) selective_.AddProduct(LinearShape(rows, columns, inner, batch_count));
  }

  // Returns a product of a linear map that the recipe of the precision quantises.
  ProductShape LinearShape(double rows, double columns, double inner, double batch_count) const {
    return {rows, columns, inner, batch_count, quantisation_.has_value()};
  }

  // Returns how often the kernels that quantise an input or a gradient of an output read it, each
  // once.
  int QuantisationReads() const {
    return quantisation_->read_count + (is_rotated_ ? kRotationReads : 0);
  }

  // Adds the kernels that quantise a tensor for both directions of products, and draw as many
  // random numbers.
  void Quantise(double elements, OperationList& pass, double random_count = 0.0) const {
    if (!quantisation_.has_value()) return;
    pass.AddElementwise(elements * (QuantisationReads() * element_ +
                                    quantised_copy_count_ * quantisation_->operand_bytes),
                        QuantisationReads(), random_count);
  }

  // Adds them for the input of a linear map and for the gradient of its output, of so many
  // elements.
  void QuantiseBoth(double inputs, double gradients);

  // The way tensor parallelism splits the weights of a linear map. If by columns, the gradient of
  // the input is summed over the ranks.
  enum class Cut { kColumns, kRows };

  // Adds the product of rows x inner with the weights, and both gradients. The input and the
  // gradient of the output are quantised if the precision says so.
  void Linear(Cut cut, double rows, double inner, double columns, bool has_bias,
              double batch_count = 1.0);

  // Adds the product with weights of which every tensor-parallel rank has all: those of a router,
  // which no recipe quantises, or of a map to the narrow vectors of experts or back.
  void Copied(double rows, double inner, double columns, bool is_quantised);

  // Adds the narrow products beside a frozen linear map: there and back forward, and four backward
  // for the gradients of both matrices, of what is between them, and of the input.
  void Adapter(double rows, double inner, double columns, double batch_count);

  // Adds a fresh gradient to the buffer.
  void AccumulateGradient(double parameter_count);

  // Adds a norm of the residual stream.
  void Norm();

  // Adds bias, dropout and residual addition after a block.
  void AddResidual();

  // Adds launches for the collectives of the ranks that share the layer.
  void TensorCollectives(int forward_count, int backward_count);

  // Adds the launches of collectives around attention that nothing hides: exchanges of tokens for
  // heads and back (queries, keys, values, and output), or gathers of keys and values.
  void ContextCollectives();
  // Returns the kernels of fused attention in a forward pass.
  int FusedAttentionKernels() const;

  // Adds the products from the residual stream to queries, keys and values of one rank.
  void QueriesKeysAndValues(double query, double key, double value);

  // Adds a root-mean-square norm of `elements`.
  void RowNorm(double elements) {
    AddForwardElementwise(Traffic(elements, elements));
    backward_.AddElementwise(Traffic(4.0 * elements, elements), 2);
  }

  // Adds an attention block with its norm and residual addition.
  void Attention(bool causal);

  // Adds one kernel for scores, softmax and their product with the values. `head_size` is the mean
  // width of a key and a value. Ranks that share tokens or heads have equal shares of the pairs
  // that the mask leaves.
  void FusedAttention(bool causal, double heads, double head_size);

  // Adds what comes before a decoder that predicts a further token: the embedding of that token,
  // both norms, and the product of their pair; and the norm behind it.
  void Prediction();

  // Adds a state space: its projections, convolution, scan, gate and norm.
  void StateSpacePart(const StateSpace& space);

  // Adds a product of activations and both of its gradients.
  void ActivationProduct(double rows, double columns, double depth, double batch_count);

  // Adds the products of `ScanFlopsPerToken`, chunk by chunk, and the kernels between them.
  void ChunkedScan(const StateSpace& space, double inner, double states, double vector_flops);

  // Returns the bytes of an element of the buffer in which gradients are summed up.
  double GradientBytes() const { return element_ < 4.0 ? runtime_.gradient_bytes : 4.0; }

  // Adds scores, softmax, dropout and the product with the values for `batch_count` heads. Scores
  // outside of a window are computed and masked.
  void UnfusedAttention(double batch_count, double key_head, double value_head);

  // Adds the feed-forward part with its norm and residual addition, if the layer has one.
  void FeedForward();

  // The fused kernels take four heads a block (Megatron-LM, fused_softmax.py,
  // is_kernel_available); other numbers fall back. A fraction is an average of shapes.
  static bool FusedSoftmaxTakes(double batch_count) {
    const auto whole = static_cast<int64_t>(batch_count);
    return static_cast<double>(whole) != batch_count || whole % 4 == 0;
  }

  // Adds two linear maps, from vectors `hidden` wide to `width` and back, and the operations
  // between them, `batch_count` times. These operations are of `activation_module`, if that is none
  // of the maps.
  void Dense(double rows, double hidden, double width, double batch_count,
             std::optional<RecomputeModule> activation_module = std::nullopt);

  // Adds router, exchange and experts, shared ones included.
  void Experts();

  // Marks what is listed while it lives as the work of a module, if there is one.
  class Within {
   public:
    Within(OperationList& list, std::optional<RecomputeModule> module)
        : list_(list), before_(list.SetModule(module)) {}
    ~Within() { list_.SetModule(before_); }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    OperationList& list_;
    std::optional<RecomputeModule> before_;
  };

  // Returns the module if the layer has it.
  std::optional<RecomputeModule> IfAny(RecomputeModule module) const {
    if (!HasRecomputeModule(layer_, module)) return std::nullopt;
    return module;
  }

  // Add the whole layer of that kind.
  void Embedding();
  void Head();

  // Small kernels around a micro-batch: tokens copied in and spread, masks, positions.
  static constexpr int kBatchLaunches = 20;

  const LayerDefinition& layer_;
  const RuntimeTraits& runtime_;
  const LayerShape& shape_;
  OperationList& forward_;
  OperationList& backward_;
  OperationList& selective_;
  ProductShape& last_forward_product_;
  int& awaited_launch_count_;
  // Selective recomputation does all element-wise work again.
  const bool by_operators_;
  // Rank of the adapters beside the linear maps of the part that is being listed; 0 for none.
  double adapter_rank_ = 0.0;
  const double element_;
  const std::optional<Quantisation> quantisation_;
  const int quantised_copy_count_;
  const bool is_rotated_;
  const ExponentialCost& exponentials_;
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

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_LISTER_H_
