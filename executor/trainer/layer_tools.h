// The tools with which every layer runs on a rank: kernels, memory, and the groups that share its
// matrices and tokens. `TrainerLayer` makes them and lends them to the parts of the layer.

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

// The tools of one layer. Everything that the setting points to outlives it.
//
// The errors of all layers: those of memory are RESOURCE_EXHAUSTED naming the size
// (ArrayPool::Take); those of communicators are DEADLINE_EXCEEDED, UNAVAILABLE, ABORTED and
// INTERNAL (PendingWork::Wait). Errors of kernels come with the next copy or `Synchronize`
// (LayerKernels).
class LayerTools {
 public:
  // The things with which a rank runs the layer.
  struct Setting {
    // The device's kernels, and the pool of its memory. REQUIRES, unchecked: neither is null, nor
    // is `definition`.
    LayerKernels* kernels = nullptr;
    ArrayPool* pool = nullptr;
    // Groups of the ranks that share matrices, and tokens; null if this rank would be alone.
    Communicator* tensor = nullptr;
    Communicator* context = nullptr;
    const LayerDefinition* definition = nullptr;
    Strategy strategy;
    ActivationLayout layout;
    // This rank's number in the job.
    int rank = 0;
    // Whether communication runs beside the passes (TrainerSetting).
    bool communicates_ahead = false;
  };
  explicit LayerTools(const Setting& setting);

  LayerKernels& kernels() const { return *setting_.kernels; }
  // Return parts of the setting; references are valid as long as these tools.
  const LayerDefinition& definition() const { return *setting_.definition; }
  const Strategy& strategy() const { return setting_.strategy; }
  const Setting& setting() const { return setting_; }
  // Returns the place of this rank among those of the layer (activation_layout.h).
  const GridPlace& place() const { return place_; }
  // Returns the bytes of an element of the kernels' type.
  int64_t element_size() const { return element_size_; }
  int tensor_degree() const { return setting_.strategy.tensor_parallel_degree; }
  bool is_sequence_parallel() const {
    return setting_.strategy.sequence_parallel && setting_.tensor != nullptr;
  }

  // Numbers of rows (tokens of samples) of the residual stream on this rank, and of matrix
  // products. With sequence parallelism products have the rows of all tensor-parallel ranks.
  int64_t row_count() const { return setting_.layout.RowCount(); }
  int64_t product_row_count() const {
    return is_sequence_parallel() ? row_count() * tensor_degree() : row_count();
  }
  int64_t sample_count() const { return setting_.layout.SampleCount(); }

  // Takes `element_count` elements of the kernels' type; RESOURCE_EXHAUSTED if there is no memory.
  absl::StatusOr<Array> Take(ArrayUse use, int64_t element_count) const;
  // Takes a transient array for the output of a layer, which the next layer may keep.
  absl::StatusOr<Array> TakeOutput(int64_t element_count) const;
  // Take `element_count` elements of the kernels' statistics type, with the error of `Take`; the
  // second sets them to zero.
  absl::StatusOr<Array> TakeStatistics(ArrayUse use, int64_t element_count) const;
  absl::StatusOr<Array> TakeZeroStatistics(ArrayUse use, int64_t element_count) const;
  // Sets `element_count` statistics to zero.
  void ZeroStatistics(void* data, int64_t element_count) const;
  // Return the address of element `offset` of `data`.
  const void* At(const void* data, int64_t offset) const {
    return static_cast<const char*>(data) + offset * element_size_;
  }
  void* At(void* data, int64_t offset) const {
    return static_cast<char*>(data) + offset * element_size_;
  }

  // Do the same for statistics.
  const void* StatisticAt(const void* data, int64_t offset) const {
    return static_cast<const char*>(data) + offset * statistic_size_;
  }
  void* StatisticAt(void* data, int64_t offset) const {
    return static_cast<char*>(data) + offset * statistic_size_;
  }

  // Returns the rows [product_row_count x width] that products need of `x` [row_count x width]:
  // with sequence parallelism gathered into `gathered`, which must outlive their use, else `x`
  // itself, and `gathered` stays as it was. `Gather` and `SumUp` are collective over the
  // tensor-parallel group, and return the errors of `Take` and of its communicator.
  absl::StatusOr<const void*> Gather(const void* x, int64_t width, Array& gathered) const;
  // Sums `partial` [product_row_count x width] over tensor-parallel ranks and returns the rows of
  // the residual stream [row_count x width]: in an array of their own with sequence parallelism,
  // else in that of `partial`, which a rank without a tensor-parallel group returns as it is.
  absl::StatusOr<Array> SumUp(Array partial, int64_t width) const;

 private:
  const Setting setting_;
  const GridPlace place_;
  const int64_t element_size_;
  const int64_t statistic_size_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_LAYER_TOOLS_H_
