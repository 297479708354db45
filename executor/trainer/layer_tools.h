// What all layers need to run on one rank: kernels, memory, and the groups they share
// matrices and tokens with.

#ifndef PARPLAN_EXECUTOR_TRAINER_LAYER_TOOLS_H_
#define PARPLAN_EXECUTOR_TRAINER_LAYER_TOOLS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/layer_kernels.h"
#include "planner/model/model_spec.h"
#include "planner/program/activation_layout.h"

namespace parplan {

// Of one layer. References and pointers outlive it.
class LayerTools {
 public:
  struct Setting {
    LayerKernels* kernels = nullptr;
    ArrayPool* pool = nullptr;
    // Null where the rank would be alone.
    Communicator* tensor = nullptr;
    Communicator* context = nullptr;
    const LayerDefinition* definition = nullptr;
    Strategy strategy;
    ActivationLayout layout;
    int rank = 0;
  };
  explicit LayerTools(const Setting& setting);

  LayerKernels& kernels() const { return *setting_.kernels; }
  const LayerDefinition& definition() const { return *setting_.definition; }
  const Strategy& strategy() const { return setting_.strategy; }
  const Setting& setting() const { return setting_; }
  const GridPlace& place() const { return place_; }
  int64_t element_size() const { return element_size_; }
  int tensor_degree() const { return setting_.strategy.tensor_parallel_degree; }
  bool is_sequence_parallel() const {
    return setting_.strategy.sequence_parallel && setting_.tensor != nullptr;
  }

  // Rows of the residual stream on this rank, and of matrix products: with sequence
  // parallelism those of all tensor-parallel ranks.
  int64_t row_count() const { return setting_.layout.RowCount(); }
  int64_t product_row_count() const {
    return is_sequence_parallel() ? row_count() * tensor_degree() : row_count();
  }
  int64_t sample_count() const { return setting_.layout.SampleCount(); }

  absl::StatusOr<Array> Take(ArrayUse use, int64_t element_count) const;
  // Of the kernels' statistics type; so many elements, zero to begin with.
  absl::StatusOr<Array> TakeStatistics(ArrayUse use, int64_t element_count) const;
  absl::StatusOr<Array> TakeZeroStatistics(ArrayUse use, int64_t element_count) const;
  // The element `offset` of `data`.
  const void* At(const void* data, int64_t offset) const {
    return static_cast<const char*>(data) + offset * element_size_;
  }
  void* At(void* data, int64_t offset) const {
    return static_cast<char*>(data) + offset * element_size_;
  }

  // The same of statistics.
  const void* StatisticAt(const void* data, int64_t offset) const {
    return static_cast<const char*>(data) + offset * statistic_size_;
  }
  void* StatisticAt(void* data, int64_t offset) const {
    return static_cast<char*>(data) + offset * statistic_size_;
  }

  // The rows that products need of `x`, which has those of the residual stream, `width` wide:
  // with sequence parallelism gathered into `gathered`; else `x` itself.
  absl::StatusOr<const void*> Gather(const void* x, int64_t width, Array& gathered) const;
  // Adds up what tensor-parallel ranks each have a part of: `partial` has the rows of
  // products, the result those of the residual stream.
  absl::StatusOr<Array> SumUp(Array partial, int64_t width) const;

 private:
  const Setting setting_;
  const GridPlace place_;
  const int64_t element_size_;
  const int64_t statistic_size_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_LAYER_TOOLS_H_
