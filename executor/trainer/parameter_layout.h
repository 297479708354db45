// The parameters of a layer, how tensor-parallel ranks share them, and what they begin
// with. Pure: a rank knows its part without seeing the whole.

#ifndef PARPLAN_EXECUTOR_TRAINER_PARAMETER_LAYOUT_H_
#define PARPLAN_EXECUTOR_TRAINER_PARAMETER_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model/model_spec.h"

namespace parplan {

// Which axis tensor-parallel ranks share.
enum class SplitAxis { kNone, kRows, kColumns };

// What a parameter begins with.
enum class InitialValue { kNormal, kSmallNormal, kZero, kOne };

// A matrix (or, with one row, a vector) of a layer and this rank's part of it.
struct ParameterTensor {
  // Of the layer, for example `query`; decides the values, with layer and place.
  std::string name;
  int64_t row_count = 1;
  int64_t column_count = 0;
  SplitAxis axis = SplitAxis::kNone;
  InitialValue initial = InitialValue::kZero;
  // This rank's rows and columns.
  int64_t first_row = 0;
  int64_t first_column = 0;
  int64_t local_row_count = 1;
  int64_t local_column_count = 0;
  // Of its first element in the rank's parameters of the layer. Its elements lie row by row.
  int64_t offset = 0;

  int64_t local_size() const { return local_row_count * local_column_count; }
};

// Those shared by tensor-parallel ranks come first, then those that all of them have.
struct ParameterLayout {
  std::vector<ParameterTensor> tensors;
  // Elements of this rank, and from where on all tensor-parallel ranks have the same.
  int64_t size = 0;
  int64_t first_shared = 0;

  // REQUIRES: there is one of this name.
  const ParameterTensor& Find(const std::string& name) const;
  bool Has(const std::string& name) const;
};

// As many as the definition says, which says by their number what they are. Layers have
// matrices and the gains of norms, which are RMS norms then; a GELU layer with more parameters
// has LayerNorms and biases (but for keys, to which softmax is blind), and a head with more a
// LayerNorm. An embedding with enough of them for all tokens of a sample has a table of
// positions. Rows and columns that `tensor_parallel_degree` does not divide, as of a vocabulary,
// are shared as evenly as can be.
ParameterLayout LayoutOfParameters(const LayerDefinition& layer, int tensor_parallel_degree,
                                   int tensor_rank);

// The value an element begins with: the same for every plan.
double InitialElement(uint64_t seed, int layer_index, const ParameterTensor& tensor, int64_t row,
                      int64_t column);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_PARAMETER_LAYOUT_H_
