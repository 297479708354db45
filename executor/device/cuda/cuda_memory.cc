#include "executor/device/cuda/cuda_memory.h"

#include <algorithm>

#include "executor/device/cuda/cuda_status.h"

namespace parplan::cuda {

absl::StatusOr<void*> CudaMemory::Allocate(Bytes size) {
  void* data = nullptr;
  // An array of no bytes is not null.
  const size_t byte_count = static_cast<size_t>(std::max<int64_t>(1, size.count()));
  const cudaError_t error = ::cudaMalloc(&data, byte_count);
  if (error != cudaSuccess) {
    // This call returns the error; CUDA must not return it again from a later one.
    static_cast<void>(::cudaGetLastError());
    return CudaStatus(error, absl::StrCat("an array of ", size.count(), " bytes of the GPU"));
  }
  return data;
}

void CudaMemory::Free(void* data) {
  // Fails only after an error that the queue returns.
  static_cast<void>(::cudaFree(data));
}

}  // namespace parplan::cuda
