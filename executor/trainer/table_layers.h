// The embedding and the head on one rank. Tensor-parallel ranks split the rows of their tables,
// that is, the vocabulary (Shoeybi et al. 2019, section 3). `TrainerLayer` has one of them.

#ifndef PARPLAN_EXECUTOR_TRAINER_TABLE_LAYERS_H_
#define PARPLAN_EXECUTOR_TRAINER_TABLE_LAYERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/trainer/layer_tools.h"
#include "executor/trainer/parameter_layout.h"

namespace parplan {

// The two classes below are used by the thread of the trainer. `parameters` and `gradients` are
// those of the layer on this rank, by `layout`, in device memory. Passes are collective over the
// tensor-parallel group, but for the head's forward pass; errors are those of memory and
// communicators (layer_tools.h).

// Looks up the rows of tokens, and adds the rows of positions if the layer has a table of them.
class EmbeddingLayer {
 public:
  // `tools` and `layout` outlive it.
  EmbeddingLayer(const LayerTools& tools, const ParameterLayout& layout);

  // Returns the output [row_count x hidden]. `tokens`: one for each row of products, in host
  // memory.
  absl::StatusOr<Array> Forward(const void* parameters, const int32_t* tokens) const;
  // Adds the gradients of the tables to `gradients` [layout.size]. `output_gradient` is [row_count
  // x hidden].
  absl::Status Backward(const int32_t* tokens, Array output_gradient, void* gradients) const;

 private:
  bool has_positions() const { return !positions_.empty(); }

  const LayerTools& tools_;
  const ParameterLayout& layout_;
  const ParameterTensor& table_;
  const int64_t hidden_;
  // [row of the residual stream] its position; empty if positions are not learned.
  std::vector<int32_t> positions_;
};

// The final norm, the product with the table, and the cross-entropy of the next tokens. Logits
// [product_row_count x vocabulary rows of this rank] take so much memory that they, and with them
// the loss, are only computed in the backward pass.
class HeadLayer {
 public:
  // Arrays that the backward pass of a micro-batch needs.
  struct Kept {
    // [row_count x hidden]
    Array input;
    // The output of the norm [row_count x hidden].
    Array normal;
    // The norm's statistics [2 row_count].
    Array moments;
  };

  // `table`: that of the head, or of the embedding if they are tied. All arguments outlive it.
  HeadLayer(const LayerTools& tools, const ParameterLayout& layout, const ParameterTensor& table);

  // Takes the memory of the logits once and gives it back. A device's allocator grows by one piece
  // for each array that fits in none: the largest array, taken first, leaves a piece in which the
  // passing arrays of all layers find room, instead of a piece beside theirs.
  absl::Status ReserveLogits() const;
  // Computes the norm and keeps what the backward pass needs.
  absl::Status Forward(const void* parameters, Array input, Kept& kept) const;
  // Returns the gradient of the input [row_count x hidden]. Adds the losses of this rank's rows,
  // times `factor`, to `*loss`, one fp64 in device memory, unless it is null; tensor-parallel ranks
  // get the same sum. All gradients are of the losses times `factor`, which is 1 / tokens of the
  // step. `targets`: one for each row of products, in host memory. `table`: this rank's rows of the
  // table; their gradients are added to `table_gradient`, those of the norm to `gradients`.
  absl::StatusOr<Array> Backward(const void* parameters, const void* table, Kept kept,
                                 const int32_t* targets, double factor, void* gradients,
                                 void* table_gradient, double* loss) const;

 private:
  // Replaces the logits by their gradients and adds the losses to `*loss` unless it is null.
  absl::Status LogitsToGradients(const Array& logits, const int32_t* targets, double factor,
                                 double* loss) const;

  const LayerTools& tools_;
  const ParameterLayout& layout_;
  const ParameterTensor& table_;
  const NormKind norm_;
  const int64_t hidden_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_TABLE_LAYERS_H_
