// Memory of a GPU. `CudaDevice` has one.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_

#include "executor/device/kernels/array_pool.h"

namespace parplan::cuda {

// Allocates memory of one GPU with cudaMalloc: RESOURCE_EXHAUSTED without memory, else INTERNAL.
// `Free` waits for all earlier work of the device. Used by the thread of the device.
class CudaMemory : public DeviceMemory {
 public:
  absl::StatusOr<void*> Allocate(Bytes size) override;
  void Free(void* data) override;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_
