#include "planner/planners/ilp/operator_graph.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "planner/model/attention_mask.h"

namespace parplan {
namespace {

// Lists the operators of one layer in the order of the forward pass.
class Writer {
 public:
  Writer(const LayerDefinition& layer, Precision precision, const RuntimeTraits& runtime,
         int64_t samples)
      : layer_(layer),
        runtime_(runtime),
        element_(static_cast<double>(BytesPerElement(precision))),
        samples_(samples),
        tokens_(static_cast<double>(samples) * layer.sequence_length),
        has_bias_(layer.feed_forward_kind != FeedForwardKind::kSwiglu) {}

  OperatorGraph Transformer() {
    int residual = Attention(
        -1, layer_.kind == LayerKind::kDecoder || layer_.kind == LayerKind::kCrossDecoder);
    if (layer_.kind == LayerKind::kCrossDecoder) residual = Attention(residual, false);
    FeedForward(residual);
    return std::move(graph_);
  }

  OperatorGraph Embedding() {
    const int table = AddMatrix("table", layer_.vocabulary_size, layer_.hidden_size, {});
    Operator& lookup = graph_.operators[table];
    lookup.flops = 0.0;
    lookup.moved_bytes = 2.0 * element_ * tokens_ * layer_.hidden_size;
    // The input is token numbers, not one-hot rows.
    lookup.keeps_input = false;
    lookup.has_input_gradient = false;
    lookup.inner_units = 0;  // padded
    graph_.table_operator = table;
    return std::move(graph_);
  }

  OperatorGraph PatchEmbedding() {
    const int patches = AddMatrix("patches", layer_.vocabulary_size, layer_.hidden_size, {});
    graph_.operators[patches].has_input_gradient = false;
    return std::move(graph_);
  }

  OperatorGraph Head(bool has_tied_table) {
    const double logits = tokens_ * layer_.vocabulary_size;
    const int norm = AddNorm("norm", -1);
    const int table = AddMatrix("classes", layer_.hidden_size, layer_.vocabulary_size, {norm});
    graph_.operators[table].column_units = 0;  // padded
    if (has_tied_table) {
      graph_.operators[table].parameter_count = 0.0;
      graph_.table_operator = table;
    }
    const int loss = AddElementwise("loss", layer_.vocabulary_size, {table});
    graph_.operators[loss].column_units = 0;
    graph_.operators[loss].row_sum_count = 3;
    // The gradient of the logits and what is computed in 32 bits, in addition to the logits.
    const double bytes_per_logit =
        runtime_.fp32_logits ? runtime_.loss_bytes_per_logit : 2.0 * element_;
    graph_.operators[loss].keeps_input = true;
    graph_.operators[loss].extra_transient_bytes =
        logits * std::max(0.0, bytes_per_logit - element_);
    return std::move(graph_);
  }

 private:
  int Add(Operator added, const std::vector<int>& inputs) {
    const int index = static_cast<int>(graph_.operators.size());
    added.rows = added.rows > 0.0 ? added.rows : tokens_;
    added.row_units =
        added.kind == OperatorKind::kAttention ? samples_ : samples_ * layer_.sequence_length;
    graph_.operators.push_back(std::move(added));
    if (inputs.empty()) graph_.edges.push_back({-1, index});
    for (const int input : inputs) graph_.edges.push_back({input, index});
    return index;
  }

  int AddNorm(std::string name, int input) {
    Operator norm{.name = std::move(name), .kind = OperatorKind::kNorm};
    norm.columns = norm.inner = layer_.hidden_size;
    norm.parameter_count = (has_bias_ ? 2.0 : 1.0) * layer_.hidden_size;
    norm.moved_bytes = 2.0 * element_ * tokens_ * layer_.hidden_size;
    norm.keeps_input = true;
    return Add(std::move(norm), {input});
  }

  int AddMatrix(std::string name, int64_t inner, int64_t columns, const std::vector<int>& inputs,
                double weight_copies = 1.0, double passes = 1.0) {
    Operator product{.name = std::move(name), .kind = OperatorKind::kMatrix};
    product.rows = tokens_ * passes;
    product.inner = static_cast<double>(inner);
    product.columns = static_cast<double>(columns);
    product.inner_units = inner;
    product.column_units = columns;
    product.parameter_count =
        weight_copies * (product.inner * product.columns + (has_bias_ ? product.columns : 0.0));
    product.flops = 2.0 * product.rows * product.inner * product.columns;
    product.keeps_input = true;
    return Add(std::move(product), inputs);
  }

  int AddElementwise(std::string name, int64_t columns, const std::vector<int>& inputs,
                     double passes = 1.0) {
    Operator work{.name = std::move(name), .kind = OperatorKind::kElementwise};
    work.rows = tokens_ * passes;
    work.columns = work.inner = static_cast<double>(columns);
    work.column_units = work.inner_units = columns;
    work.moved_bytes =
        element_ * work.rows * work.columns * (1.0 + static_cast<double>(inputs.size()));
    return Add(std::move(work), inputs);
  }

  // Adds bias, dropout and residual addition after a part.
  int AddResidual(std::string name, int part, int residual) {
    const int sum = AddElementwise(std::move(name), layer_.hidden_size, {part, residual});
    if (runtime_.hidden_dropout) {
      graph_.operators[sum].extra_kept_bytes = tokens_ * layer_.hidden_size;
    }
    return sum;
  }

  int Attention(int residual, bool causal) {
    const int64_t heads = layer_.attention_head_count;
    const int64_t key_value_heads = layer_.key_value_head_count;
    const int64_t query = heads * layer_.head_size;
    const int64_t projected = query + 2 * key_value_heads * layer_.head_size;
    // A second attention is over encoded tokens and has other names.
    const std::string prefix = residual < 0 ? "" : "cross-";
    const int norm = AddNorm(prefix + "norm1", residual);
    const int qkv = AddMatrix(prefix + "qkv", layer_.hidden_size, projected, {norm});
    graph_.operators[qkv].column_units = key_value_heads;

    Operator attention{.name = prefix + "attention", .kind = OperatorKind::kAttention};
    attention.columns = static_cast<double>(query);
    attention.inner = static_cast<double>(projected);
    attention.column_units = attention.inner_units = key_value_heads;
    attention.keeps_input = true;
    const double scores =
        static_cast<double>(samples_ * heads) * layer_.sequence_length * layer_.sequence_length;
    const bool fused = runtime_.attention_kernel == AttentionKernel::kFlash;
    // Only the self-attention of a cross decoder has a window.
    const bool has_window = fused && residual < 0;
    attention.flops = (fused && causal ? 2.0 : 4.0) * scores * layer_.head_size *
                      (has_window ? VisibleShare(layer_, causal, layer_.sequence_length) : 1.0);
    if (!fused) {
      attention.moved_bytes = 4.0 * element_ * scores;
      attention.extra_kept_bytes =
          scores * (runtime_.attention_dropout ? 2.0 * element_ + 1.0 : element_);
      attention.extra_transient_bytes = 2.0 * element_ * scores;
    }
    const int mixed = Add(std::move(attention), {qkv});
    const int projection = AddMatrix(prefix + "projection", query, layer_.hidden_size, {mixed});
    graph_.operators[projection].inner_units = key_value_heads;
    return AddResidual(prefix + "add1", projection, residual);
  }

  int FeedForward(int residual) {
    const bool gated = layer_.feed_forward_kind == FeedForwardKind::kSwiglu;
    const bool has_experts = layer_.expert_count > 0;
    const double passes = has_experts ? layer_.experts_per_token : 1.0;
    const double copies = has_experts ? layer_.expert_count / passes : 1.0;
    // The experts a token passes and the shared one, side by side.
    int64_t width = layer_.feed_forward_size;
    if (has_experts) {
      width = int64_t{layer_.experts_per_token} * layer_.expert_feed_forward_size +
              layer_.shared_expert_feed_forward_size;
    }
    const int64_t units = has_experts ? layer_.expert_feed_forward_size : layer_.feed_forward_size;
    const int norm = AddNorm("norm2", residual);
    const int first =
        AddMatrix("first", layer_.hidden_size, gated ? 2 * width : width, {norm}, copies);
    graph_.operators[first].column_units = units;
    const int activation = AddElementwise("activation", width, {first});
    Operator& gate = graph_.operators[activation];
    gate.inner = gated ? 2.0 * width : width;
    gate.column_units = gate.inner_units = units;
    gate.keeps_input = true;
    gate.moved_bytes = element_ * tokens_ * (gate.inner + gate.columns);
    const int second = AddMatrix("second", width, layer_.hidden_size, {activation}, copies);
    graph_.operators[second].inner_units = units;
    return AddResidual("add2", second, residual);
  }

  const LayerDefinition& layer_;
  const RuntimeTraits& runtime_;
  const double element_;
  const int64_t samples_;
  const double tokens_;
  const bool has_bias_;
  OperatorGraph graph_;
};

}  // namespace

OperatorGraph OperatorsOf(const LayerDefinition& definition, Precision precision,
                          const RuntimeTraits& runtime, int64_t samples, bool has_tied_table) {
  Writer writer(definition, precision, runtime, samples);
  switch (definition.kind) {
    case LayerKind::kEmbedding:
      return writer.Embedding();
    case LayerKind::kPatchEmbedding:
      return writer.PatchEmbedding();
    case LayerKind::kHead:
      return writer.Head(has_tied_table);
    case LayerKind::kDecoder:
    case LayerKind::kEncoder:
    case LayerKind::kCrossDecoder:
    case LayerKind::kStateSpace:
    case LayerKind::kFeedForward:
    case LayerKind::kOpaque:
      break;
  }
  PARPLAN_CHECK(HasUsualParts(definition));
  return writer.Transformer();
}

}  // namespace parplan
