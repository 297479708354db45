// The allocator of one GPU's memory. `CudaDevice` owns one.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/block_heap.h"

namespace parplan::cuda {

// The driver's functions for virtual memory. `CudaMemory::Create` looks them up at run time,
// because the CUDA plugin must also load on machines without a driver.
struct VirtualMemoryCalls {
  decltype(&::cuMemAddressReserve) reserve = nullptr;
  decltype(&::cuMemAddressFree) free_reserved = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
};

// A stream-ordered allocator: memory that is freed at one point of the stream can be part of any
// later allocation with the same `Lifetime` (array_pool.h), whatever its size. Each `Lifetime` has
// an address range of its own, in which a BlockHeap places arrays. A chunk of physical memory is
// mapped when an array first needs it, and stays mapped after `Free`. The driver's own pools
// (cudaMallocAsync) need up to 8.6 % more memory in training that recomputes, since they do not
// coalesce free pieces (docs/measurements/gpu.md).
//
// Unused chunks belong to this object until an allocation runs out of memory or `ResetPeak` is
// called. Allocations by others (scratch memory, cuDNN's workspace, NCCL's groups) can therefore
// fail while chunks are unused.
//
// If the GPU has no virtual memory, or the driver cannot reserve the addresses, the object falls
// back to cudaMalloc and cudaFree, which synchronise the device.
//
// Used by the thread of the device. REQUIRES, unchecked: every array is freed before the object is
// destroyed.
class CudaMemory : public DeviceMemory {
 public:
  // REQUIRES, unchecked: `device` is the calling thread's current GPU, here and in all calls;
  // `stream` belongs to that GPU and outlives this object. Returns the errors of CudaStatus
  // (cuda_status.h), which are RESOURCE_EXHAUSTED and INTERNAL, if CUDA does not say how much
  // memory the GPU has; never an error of the fallback.
  static absl::StatusOr<std::unique_ptr<CudaMemory>> Create(int device, cudaStream_t stream);
  // Waits for the stream; in the fallback it does not.
  ~CudaMemory() override;

  // Returns memory with undefined contents, aligned to 256 bytes; never null, not even for 0 bytes.
  // If the driver has no chunk left, waits for the stream, gives the unused chunks of both
  // lifetimes back to the driver, and tries once more. Errors:
  //   - RESOURCE_EXHAUSTED: the GPU has no memory; or the address range of `lifetime`, which has
  //     twice the size of the GPU's memory, has no gap of `size`; or `size` is more than half of
  //     that range.
  //   - INTERNAL: another error of the driver, or an error of earlier work that the wait for the
  //     stream returned.
  absl::StatusOr<void*> Allocate(Bytes size, Lifetime lifetime) override;
  // Frees an array of this object without waiting; does nothing for null. REQUIRES: `Allocate`
  // returned `data` and it was not freed since, and aborts otherwise; work of other streams with
  // the array has ended, or `stream` waits for that work, unchecked. The fallback synchronises the
  // device, and ignores errors of cudaFree instead of aborting.
  void Free(void* data) override;
  // Returns whether the object has virtual memory, which is false in the fallback.
  bool reuses_freed() const override { return is_virtual(); }

  // `held` returns the physical memory that is mapped now, used or not, a multiple of the 16 MiB of
  // a chunk. `held_peak` returns the maximum of `held` since the last `ResetPeak`, or since
  // `Create` before the first one. Both are 0 in the fallback.
  Bytes held() const { return held_; }
  Bytes held_peak() const { return held_peak_; }
  // Waits for the stream, gives unused chunks back to the driver, and sets `held_peak` to `held`.
  // Returns the error of CudaStatus that the wait returned; nothing changes then.
  absl::Status ResetPeak();

 private:
  // The addresses of one lifetime.
  struct Range {
    CUdeviceptr base = 0;
    BlockHeap heap;
    // The physical memory that is mapped at `base + k * kChunk`; absent if none is.
    std::vector<std::optional<CUmemGenericAllocationHandle>> chunks;
  };

  CudaMemory(int device, cudaStream_t stream) : device_(device), stream_(stream) {}
  bool is_virtual() const { return ranges_.front().base != 0; }
  // Reserves the addresses with the driver's functions `calls`; the object stays in the fallback if
  // the driver cannot.
  absl::Status Reserve(const VirtualMemoryCalls& calls);
  // Maps chunks under [offset, offset + size). Returns the driver's first error; chunks that were
  // mapped before the error stay mapped and unused.
  CUresult Map(Range& range, int64_t offset, int64_t size);
  CUresult MapChunk(Range& range, int64_t index);
  absl::StatusOr<void*> AllocateVirtual(int64_t size, Lifetime lifetime);
  // Waits for the stream and gives unused chunks back to the driver.
  absl::Status Trim();
  // Gives the chunks that lie entirely within [begin, end) back to the driver.
  void TrimRange(Range& range, int64_t begin, int64_t end);

  const int device_;
  const cudaStream_t stream_;
  VirtualMemoryCalls calls_;
  // Size of each address range in bytes; 0 in the fallback.
  int64_t reserved_ = 0;
  // Indexed by Lifetime.
  std::array<Range, 2> ranges_;
  Bytes held_;
  Bytes held_peak_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_
