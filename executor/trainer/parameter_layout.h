// The parameters of a layer, how tensor-parallel ranks split them, and their initial values. Pure:
// a rank computes its part without seeing the whole. `TrainerLayer` lays out its parameters by it,
// and a swap of plans finds them by it (executor/apply/state_map.h).

#ifndef PARPLAN_EXECUTOR_TRAINER_PARAMETER_LAYOUT_H_
#define PARPLAN_EXECUTOR_TRAINER_PARAMETER_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "planner/model/model_spec.h"

namespace parplan {

// The axis along which tensor-parallel ranks split a matrix.
enum class SplitAxis { kNone, kRows, kColumns };

// Kind of a parameter's initial values: normal with deviation 0.02, normal with deviation 0.005
// (matrices that write to the residual stream, and positions), all 0, or all 1.
enum class InitialValue { kNormal, kSmallNormal, kZero, kOne };

// The names of tensors. They decide initial values, so a name does not change. A layer has some of
// them (`LayoutOfParameters`).
namespace tensor_names {
inline constexpr char kQuery[] = "query";
inline constexpr char kKey[] = "key";
inline constexpr char kValue[] = "value";
inline constexpr char kProjection[] = "projection";
inline constexpr char kFirst[] = "first";
inline constexpr char kGate[] = "gate";
inline constexpr char kUp[] = "up";
inline constexpr char kSecond[] = "second";
inline constexpr char kAttentionNormGain[] = "attention_norm_gain";
inline constexpr char kAttentionNormBias[] = "attention_norm_bias";
inline constexpr char kFeedForwardNormGain[] = "feed_forward_norm_gain";
inline constexpr char kFeedForwardNormBias[] = "feed_forward_norm_bias";
inline constexpr char kQueryBias[] = "query_bias";
inline constexpr char kValueBias[] = "value_bias";
inline constexpr char kFirstBias[] = "first_bias";
inline constexpr char kProjectionBias[] = "projection_bias";
inline constexpr char kSecondBias[] = "second_bias";
inline constexpr char kTable[] = "table";
inline constexpr char kNormGain[] = "norm_gain";
inline constexpr char kNormBias[] = "norm_bias";
inline constexpr char kPositions[] = "positions";
}  // namespace tensor_names

// A matrix of a layer and this rank's part of it. Matrices of linear maps are [output x input],
// tables [entry x hidden]. A vector that ranks split has one column; one that all ranks have is one
// row.
struct ParameterTensor {
  // One of `tensor_names`, unique within the layer. With layer and position it determines the
  // initial values.
  std::string name;
  int64_t row_count = 1;
  int64_t column_count = 0;
  SplitAxis axis = SplitAxis::kNone;
  InitialValue initial = InitialValue::kZero;
  // The first row and column that this rank has, and its numbers of rows and columns: all of them
  // except along `axis`.
  int64_t first_row = 0;
  int64_t first_column = 0;
  int64_t local_row_count = 1;
  int64_t local_column_count = 0;
  // Index of its first element among the rank's parameters of the layer; row-major.
  int64_t offset = 0;

  // Returns the number of elements that this rank has.
  int64_t local_size() const { return local_row_count * local_column_count; }
};

// The parameters of a layer on one rank: first those that tensor-parallel ranks split, then those
// that all of them have.
struct ParameterLayout {
  std::vector<ParameterTensor> tensors;
  // Number of elements on this rank, and index of the first one that all tensor-parallel ranks
  // have: `size` if there is none.
  int64_t size = 0;
  int64_t first_shared = 0;

  // Returns the tensor of this name, valid as long as `tensors`. REQUIRES: Has(name); aborts
  // otherwise.
  const ParameterTensor& Find(absl::string_view name) const;
  // Returns whether the layer has a tensor of this name.
  bool Has(absl::string_view name) const;
};

// Returns the parameters of tensor-parallel rank `tensor_rank`, from 0 on. The number of parameters
// in the definition decides what they are: a layer has matrices and the gains of RMS norms; a GELU
// layer with more has LayerNorms and biases (none for keys, since softmax does not depend on them);
// a head with more has a LayerNorm; an embedding with enough for all tokens of a sample has a table
// of positions, with as many rows as its remaining parameters make. A tied head has no table.
// Query, key and value follow one another in this order, and so do gate and up. Rows and columns
// that `tensor_parallel_degree` does not divide, such as those of a vocabulary, are split so that
// parts differ by at most one.
//
// REQUIRES, unchecked: a layer that the executor trains (`RankProgram::Create` refuses the others,
// for example those with experts).
ParameterLayout LayoutOfParameters(const LayerDefinition& layer, int tensor_parallel_degree,
                                   int tensor_rank);

// Return the sequence of random numbers of a tensor (NormalNumber, mix_bits.h) and the deviation of
// its initial values. The element at `row` and `column` of the whole tensor is the deviation times
// number `row * column_count + column` of the sequence. `layer_index` is the layer's place in the
// model. REQUIRES, unchecked: the initial values are normally distributed.
uint64_t InitialStream(uint64_t seed, int layer_index, const ParameterTensor& tensor);
double InitialDeviation(const ParameterTensor& tensor);
// Returns the initial value of an element; the same under every plan. `row` and `column` are those
// of the whole tensor. Tests compare with it what kernels fill by the two above.
double InitialElement(uint64_t seed, int layer_index, const ParameterTensor& tensor, int64_t row,
                      int64_t column);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_PARAMETER_LAYOUT_H_
