// A layer as operators on matrices of tokens by features.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_GRAPH_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model/model_spec.h"
#include "planner/model/runtime_traits.h"

namespace parplan {

enum class OperatorKind {
  // Y[rows, columns] = X[rows, inner] W[inner, columns].
  kMatrix,
  // Batched products, one a sample and head: rows are split by samples, columns by heads.
  kAttention,
  // Along whole rows.
  kNorm,
  kElementwise,
};

// One operator for one micro-batch, whole.
struct Operator {
  std::string name;
  OperatorKind kind = OperatorKind::kElementwise;
  double rows = 0.0;
  double columns = 0.0;  // of the output
  double inner = 0.0;    // columns of the input
  // Shards of rows and of the columns of either side divide these; 0: any do.
  int64_t row_units = 0;
  int64_t column_units = 0;
  int64_t inner_units = 0;
  double parameter_count = 0.0;
  // Forward.
  double flops = 0.0;
  // Read and written by element-wise work, forward.
  double moved_bytes = 0.0;
  // Besides input and output, kept from forward to backward and split as the output is.
  double extra_kept_bytes = 0.0;
  // The same, only while its backward pass runs.
  double extra_transient_bytes = 0.0;
  // The backward pass needs the input.
  bool keeps_input = false;
  // False for what enters the model: nobody wants its gradient.
  bool has_input_gradient = true;
  // All-reduces of one 32-bit number a row where columns are split (a loss).
  int row_sum_count = 0;
};

// A tensor from one operator to another. -1 as `from`: the input of the layer.
struct OperatorEdge {
  int from = -1;
  int to = 0;
  friend bool operator==(const OperatorEdge&, const OperatorEdge&) = default;
};

// The output of the last operator is that of the layer.
struct OperatorGraph {
  std::vector<Operator> operators;
  std::vector<OperatorEdge> edges;
  // Index of the operator whose weight is the table that embedding and head share, or -1.
  int table_operator = -1;
};

// Operators of a layer for micro-batches of `samples` samples.
//
// A transformer layer: norm, query-key-value product, attention, projection, addition,
// norm, first product, activation, second product, addition; cross-attention once more
// the first five, over the layer's own input. Experts are one feed-forward part as wide
// as those a token passes, with the weights of all. `has_tied_table`: the head uses the
// embedding's table and has none.
OperatorGraph OperatorsOf(const LayerDefinition& definition, Precision precision,
                          const RuntimeTraits& runtime, int64_t samples, bool has_tied_table);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_GRAPH_H_
