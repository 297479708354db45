// Memory of a GPU. `CudaDevice` has one.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_

#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/device/kernels/array_pool.h"

namespace parplan::cuda {

// Allocates memory of one GPU in the order of a stream, from two pools of the driver, one for each
// lifetime: memory freed at one place of the stream serves any array of its pool after it, whatever
// its size. An allocation that fails is tried once more after all that is unused has gone back to
// the driver. Where a GPU has no such pools, cudaMalloc and cudaFree, which wait for the device.
// Allocate: RESOURCE_EXHAUSTED without memory, else INTERNAL. Used by the thread of the device.
class CudaMemory : public DeviceMemory {
 public:
  // `stream` outlives the memory; `device` is its GPU. Returns the errors of CudaStatus.
  static absl::StatusOr<std::unique_ptr<CudaMemory>> Create(int device, cudaStream_t stream);
  ~CudaMemory() override;

  absl::StatusOr<void*> Allocate(Bytes size, Lifetime lifetime) override;
  void Free(void* data) override;
  bool reuses_freed() const override { return has_pools(); }

  // Return the memory that the pools hold now, and the sum of what each held at most since
  // `ResetPeak`, at first since `Create`; 0 without pools. Errors of these three are those of
  // CudaStatus.
  absl::StatusOr<Bytes> Held() const { return Sum(cudaMemPoolAttrReservedMemCurrent); }
  absl::StatusOr<Bytes> HeldPeak() const { return Sum(cudaMemPoolAttrReservedMemHigh); }
  // Returns unused memory to the driver and forgets earlier peaks.
  absl::Status ResetPeak();

 private:
  explicit CudaMemory(cudaStream_t stream) : stream_(stream) {}
  bool has_pools() const { return pools_.front() != nullptr; }
  absl::StatusOr<Bytes> Sum(cudaMemPoolAttr attribute) const;
  // Returns unused memory to the driver, after all work of the stream.
  absl::Status Trim();

  const cudaStream_t stream_;
  // [Lifetime]; null if the GPU has none.
  std::array<cudaMemPool_t, 2> pools_ = {};
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_
