// Memory of a GPU.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_

#include "executor/device/kernels/array_pool.h"

namespace parplan::cuda {

// Plain allocations of one device; `Free` waits for what the device was given. Of the thread
// whose device it is.
class CudaMemory : public DeviceMemory {
 public:
  absl::StatusOr<void*> Allocate(Bytes size) override;
  void Free(void* data) override;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_
