#include "executor/device/cuda/cuda_memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "executor/device/cuda/cuda_status.h"

namespace parplan::cuda {

absl::StatusOr<std::unique_ptr<CudaMemory>> CudaMemory::Create(int device, cudaStream_t stream) {
  int has_pools = 0;
  PARPLAN_RETURN_IF_CUDA_ERROR(
      ::cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, device));
  cudaMemPool_t pool = nullptr;
  if (has_pools != 0) {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMemPoolCreate(&pool, &properties));
  }
  std::unique_ptr<CudaMemory> memory(new CudaMemory(stream, pool));
  if (pool != nullptr) {
    // Otherwise every synchronization returns all unused memory to the driver.
    uint64_t threshold = std::numeric_limits<uint64_t>::max();
    PARPLAN_RETURN_IF_CUDA_ERROR(
        ::cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  }
  return memory;
}

CudaMemory::~CudaMemory() {
  if (pool_ == nullptr) return;
  static_cast<void>(::cudaStreamSynchronize(stream_));
  static_cast<void>(::cudaMemPoolDestroy(pool_));
}

absl::StatusOr<void*> CudaMemory::Allocate(Bytes size) {
  void* data = nullptr;
  // An array of no bytes is not null.
  const size_t byte_count = static_cast<size_t>(std::max<int64_t>(1, size.count()));
  const cudaError_t error = pool_ == nullptr
                                ? ::cudaMalloc(&data, byte_count)
                                : ::cudaMallocFromPoolAsync(&data, byte_count, pool_, stream_);
  if (error != cudaSuccess) {
    // This call returns the error; CUDA must not return it again from a later one.
    static_cast<void>(::cudaGetLastError());
    return CudaStatus(error, absl::StrCat("an array of ", size.count(), " bytes of the GPU"));
  }
  return data;
}

void CudaMemory::Free(void* data) {
  // Fails only after an error that the queue returns.
  static_cast<void>(pool_ == nullptr ? ::cudaFree(data) : ::cudaFreeAsync(data, stream_));
}

absl::StatusOr<Bytes> CudaMemory::Attribute(cudaMemPoolAttr attribute) const {
  if (pool_ == nullptr) return Bytes();
  uint64_t value = 0;
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMemPoolGetAttribute(pool_, attribute, &value));
  return Bytes::Of(static_cast<int64_t>(value));
}

absl::Status CudaMemory::ResetPeak() {
  if (pool_ == nullptr) return absl::OkStatus();
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaStreamSynchronize(stream_));
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMemPoolTrimTo(pool_, 0));
  uint64_t none = 0;
  PARPLAN_RETURN_IF_CUDA_ERROR(
      ::cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &none));
  return absl::OkStatus();
}

}  // namespace parplan::cuda
