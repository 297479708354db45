// A layer as operators on matrices of tokens by features. `GraphOfModel` makes its nodes of them.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_GRAPH_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model/model_spec.h"
#include "planner/model/runtime_traits.h"

namespace parplan {

// The kinds of operators, which determine how they may be split.
enum class OperatorKind {
  // Y[rows, columns] = X[rows, inner] W[inner, columns].
  kMatrix,
  // Batched products, one per sample and head: rows are split by samples, columns by heads.
  kAttention,
  // Works along whole rows.
  kNorm,
  kElementwise,
};

// One operator for one micro-batch, not split.
struct Operator {
  // Name for people.
  std::string name;
  OperatorKind kind = OperatorKind::kElementwise;
  double rows = 0.0;
  double columns = 0.0;  // of the output
  double inner = 0.0;    // columns of the input
  // The number of shards of rows, of output columns and of input columns must divide these; 0
  // permits any number.
  int64_t row_units = 0;
  int64_t column_units = 0;
  int64_t inner_units = 0;
  double parameter_count = 0.0;
  // Floating-point operations of the forward pass.
  double flops = 0.0;
  // Bytes read and written by element-wise work in the forward pass.
  double moved_bytes = 0.0;
  // Bytes kept from forward to backward in addition to input and output, split as the output is.
  double extra_kept_bytes = 0.0;
  // Bytes in addition to those, held only while the backward pass of the operator runs.
  double extra_transient_bytes = 0.0;
  // Whether the backward pass needs the input.
  bool keeps_input = false;
  // False for the input of the model, whose gradient is not needed.
  bool has_input_gradient = true;
  // All-reduces of one 32-bit number per row if columns are split (for a loss).
  int row_sum_count = 0;
};

// A tensor from one operator to another. `from` is -1 for the input of the layer.
struct OperatorEdge {
  int from = -1;
  int to = 0;
  friend bool operator==(const OperatorEdge&, const OperatorEdge&) = default;
};

// The operators of a layer; the output of the last one is that of the layer.
struct OperatorGraph {
  std::vector<Operator> operators;
  std::vector<OperatorEdge> edges;
  // Index of the operator whose weight is the table that embedding and head may share: of an
  // embedding in any case, of a head only if it has none of its own; otherwise -1.
  int table_operator = -1;
};

// Returns the operators of a layer for micro-batches of `samples` samples.
//
// A transformer layer has norm, query-key-value product, attention, projection, addition, norm,
// first product, activation, second product, addition. A cross-decoder has the first five twice;
// its cross-attention takes keys and values from the decoder's own tokens, since a definition has
// no sequence length of the encoder. Experts are one feed-forward part as wide as those a token
// passes, with the weights of all. An embedding has its table alone, one of patches a product
// alone, a head has norm, product and loss. If `has_tied_table`, the head uses the embedding's
// table and has none of its own.
//
// REQUIRES: HasUsualParts(definition); aborts otherwise.
OperatorGraph OperatorsOf(const LayerDefinition& definition, Precision precision,
                          const RuntimeTraits& runtime, int64_t samples, bool has_tied_table);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_GRAPH_H_
