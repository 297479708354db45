// Memory of a GPU. `CudaDevice` has one.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_

#include <cuda_runtime_api.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/device/kernels/array_pool.h"

namespace parplan::cuda {

// Allocates memory of one GPU in the order of a stream, from a pool of the driver: memory freed at
// one place of the stream serves any array after it, whatever its size, and an allocation that
// fails first returns what is unused. Where a GPU has no such pools, cudaMalloc and cudaFree, which
// wait for the device. Allocate: RESOURCE_EXHAUSTED without memory, else INTERNAL. Used by the
// thread of the device.
class CudaMemory : public DeviceMemory {
 public:
  // `stream` outlives the memory; `device` is its GPU. Returns the errors of CudaStatus.
  static absl::StatusOr<std::unique_ptr<CudaMemory>> Create(int device, cudaStream_t stream);
  ~CudaMemory() override;

  absl::StatusOr<void*> Allocate(Bytes size) override;
  void Free(void* data) override;
  bool reuses_freed() const override { return pool_ != nullptr; }

  // Return the memory that the pool holds now, and at most since `ResetPeak`; 0 without a pool.
  absl::StatusOr<Bytes> Held() const { return Attribute(cudaMemPoolAttrReservedMemCurrent); }
  absl::StatusOr<Bytes> HeldPeak() const { return Attribute(cudaMemPoolAttrReservedMemHigh); }
  // Returns unused memory to the driver, after all work of the stream.
  absl::Status ResetPeak();

 private:
  CudaMemory(cudaStream_t stream, cudaMemPool_t pool) : stream_(stream), pool_(pool) {}
  absl::StatusOr<Bytes> Attribute(cudaMemPoolAttr attribute) const;

  const cudaStream_t stream_;
  // Null if the GPU has none.
  const cudaMemPool_t pool_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_
