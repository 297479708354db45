// The embedding and the head on one rank. Tensor-parallel ranks share the rows of their
// tables, that is the vocabulary (Shoeybi et al. 2019, section 3).

#ifndef PARPLAN_CLIENTS_EXECUTOR_TRAINER_TABLE_LAYERS_H_
#define PARPLAN_CLIENTS_EXECUTOR_TRAINER_TABLE_LAYERS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "clients/executor/trainer/layer_tools.h"
#include "clients/executor/trainer/parameter_layout.h"

namespace parplan {

class EmbeddingLayer {
 public:
  // Both outlive it.
  EmbeddingLayer(const LayerTools& tools, const ParameterLayout& layout);

  // `tokens`: one for each row of products, on the device.
  absl::StatusOr<Array> Forward(const void* parameters, const int32_t* tokens) const;
  absl::Status Backward(const int32_t* tokens, Array output_gradient, void* gradients) const;

 private:
  const LayerTools& tools_;
  const ParameterTensor table_;
  const int64_t hidden_;
};

// Final norm, product with the table, and cross-entropy of the next tokens.
class HeadLayer {
 public:
  struct Kept {
    Array input;
    Array normal;
    Array moments;
    // Logits, and then their gradients.
    Array logits;
  };

  // `table`: of the head, or of the embedding where they are tied. All outlive it.
  HeadLayer(const LayerTools& tools, const ParameterLayout& layout, const ParameterTensor& table);

  // Adds the losses of this rank's rows to `loss`, each times `factor`; tensor-parallel ranks
  // get the same. `targets`: one for each row of products, on the device. `table`: this
  // rank's rows of it.
  absl::Status Forward(const void* parameters, const void* table, Array input,
                       const int32_t* targets, double factor, Kept& kept, double& loss) const;
  // The gradient of the input.
  absl::StatusOr<Array> Backward(const void* parameters, const void* table, Kept kept,
                                 void* gradients, void* table_gradient) const;

 private:
  const LayerTools& tools_;
  const ParameterLayout& layout_;
  const ParameterTensor& table_;
  const int64_t hidden_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_EXECUTOR_TRAINER_TABLE_LAYERS_H_
