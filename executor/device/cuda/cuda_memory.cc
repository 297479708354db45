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
  std::unique_ptr<CudaMemory> memory(new CudaMemory(stream));
  if (has_pools == 0) return memory;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  for (cudaMemPool_t& pool : memory->pools_) {
    PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMemPoolCreate(&pool, &properties));
    // Otherwise every synchronization returns all unused memory to the driver.
    uint64_t threshold = std::numeric_limits<uint64_t>::max();
    PARPLAN_RETURN_IF_CUDA_ERROR(
        ::cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  }
  return memory;
}

CudaMemory::~CudaMemory() {
  if (!has_pools()) return;
  static_cast<void>(::cudaStreamSynchronize(stream_));
  for (const cudaMemPool_t pool : pools_) {
    if (pool != nullptr) static_cast<void>(::cudaMemPoolDestroy(pool));
  }
}

absl::StatusOr<void*> CudaMemory::Allocate(Bytes size, Lifetime lifetime) {
  const cudaMemPool_t pool = pools_[static_cast<int>(lifetime)];
  // An array of no bytes is not null.
  const size_t byte_count = static_cast<size_t>(std::max<int64_t>(1, size.count()));
  void* data = nullptr;
  const auto allocate = [&] {
    return has_pools() ? ::cudaMallocFromPoolAsync(&data, byte_count, pool, stream_)
                       : ::cudaMalloc(&data, byte_count);
  };
  cudaError_t error = allocate();
  if (error == cudaErrorMemoryAllocation && has_pools()) {
    // The other pool may hold what this one needs.
    static_cast<void>(::cudaGetLastError());
    PARPLAN_RETURN_IF_ERROR(Trim());
    error = allocate();
  }
  if (error != cudaSuccess) {
    // This call returns the error; CUDA must not return it again from a later one.
    static_cast<void>(::cudaGetLastError());
    return CudaStatus(error, absl::StrCat("an array of ", size.count(), " bytes of the GPU"));
  }
  return data;
}

void CudaMemory::Free(void* data) {
  // Fails only after an error that the queue returns.
  static_cast<void>(has_pools() ? ::cudaFreeAsync(data, stream_) : ::cudaFree(data));
}

absl::StatusOr<Bytes> CudaMemory::Sum(cudaMemPoolAttr attribute) const {
  Bytes sum;
  for (const cudaMemPool_t pool : pools_) {
    if (pool == nullptr) continue;
    uint64_t value = 0;
    PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMemPoolGetAttribute(pool, attribute, &value));
    sum += Bytes::Of(static_cast<int64_t>(value));
  }
  return sum;
}

absl::Status CudaMemory::Trim() {
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaStreamSynchronize(stream_));
  for (const cudaMemPool_t pool : pools_) {
    if (pool != nullptr) PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMemPoolTrimTo(pool, 0));
  }
  return absl::OkStatus();
}

absl::Status CudaMemory::ResetPeak() {
  PARPLAN_RETURN_IF_ERROR(Trim());
  for (const cudaMemPool_t pool : pools_) {
    if (pool == nullptr) continue;
    uint64_t none = 0;
    PARPLAN_RETURN_IF_CUDA_ERROR(
        ::cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &none));
  }
  return absl::OkStatus();
}

}  // namespace parplan::cuda
