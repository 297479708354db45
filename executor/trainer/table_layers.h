// The embedding and the head on one rank. Tensor-parallel ranks share the rows of their
// tables, that is the vocabulary (Shoeybi et al. 2019, section 3).

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

// Rows of the token table, and of the table of positions where there is one.
class EmbeddingLayer {
 public:
  // Both outlive it.
  EmbeddingLayer(const LayerTools& tools, const ParameterLayout& layout);

  // `tokens`: one for each row of products, in memory of the host.
  absl::StatusOr<Array> Forward(const void* parameters, const int32_t* tokens) const;
  absl::Status Backward(const int32_t* tokens, Array output_gradient, void* gradients) const;

 private:
  bool has_positions() const { return !positions_.empty(); }

  const LayerTools& tools_;
  const ParameterLayout& layout_;
  const ParameterTensor& table_;
  const int64_t hidden_;
  // Where positions are learned: of each row of the residual stream.
  std::vector<int32_t> positions_;
};

// Final norm, product with the table, and cross-entropy of the next tokens. Logits take so much
// memory that they are made in the backward pass only, and with them the loss.
class HeadLayer {
 public:
  struct Kept {
    Array input;
    Array normal;
    Array moments;
  };

  // `table`: of the head, or of the embedding where they are tied. All outlive it.
  HeadLayer(const LayerTools& tools, const ParameterLayout& layout, const ParameterTensor& table);

  absl::Status Forward(const void* parameters, Array input, Kept& kept) const;
  // The gradient of the input. Adds the losses of this rank's rows to `loss`, each times
  // `factor`; tensor-parallel ranks get the same. `targets`: one for each row of
  // products, in memory of the host. `table`: this rank's rows of it.
  absl::StatusOr<Array> Backward(const void* parameters, const void* table, Kept kept,
                                 const int32_t* targets, double factor, void* gradients,
                                 void* table_gradient, double& loss) const;

 private:
  // From logits to gradients in their place, and the loss.
  absl::Status LoseLogits(const Array& logits, const int32_t* targets, double factor,
                          double& loss) const;

  const LayerTools& tools_;
  const ParameterLayout& layout_;
  const ParameterTensor& table_;
  const NormKind norm_;
  const int64_t hidden_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_TABLE_LAYERS_H_
