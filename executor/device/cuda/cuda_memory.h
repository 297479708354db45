// Memory of a GPU. `CudaDevice` has one.

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

// The driver's functions of virtual memory. The plugin links no library of the driver, so that it
// loads where there is none.
struct VirtualMemoryCalls {
  decltype(&::cuMemAddressReserve) reserve = nullptr;
  decltype(&::cuMemAddressFree) free_reserved = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
};

// Allocates memory of one GPU in the order of a stream: what is freed at one place of the stream
// serves any array after it, whatever its size. Each lifetime has a range of virtual addresses of
// its own, in which a BlockHeap places arrays, and chunks of physical memory are mapped under what
// it uses. Pools of the driver (cudaMallocAsync) need up to 8.6 % more in training that
// recomputes, since their pieces do not join (docs/measurements/gpu.md).
//
// If the driver has no chunk left, `Allocate` waits for the stream, gives all unused chunks back to
// the driver, and tries once more; memory that others take of the driver (scratch memory, cuDNN's
// workspace, NCCL's groups) gets none of the unused chunks. Where the GPU has no virtual memory, or
// the driver no addresses: cudaMalloc and cudaFree, which wait for the device. Allocate:
// RESOURCE_EXHAUSTED without memory or without addresses (twice the GPU's memory for each lifetime;
// one array has at most half of them), else INTERNAL; the former may come after a wait for the
// stream. An array of no bytes is not null either. With virtual memory `Free` waits for nothing,
// takes null, and aborts for what is no array of this object; without it an error of cudaFree is
// ignored. Work of other streams with the array must have ended, or the stream must wait for it.
// All arrays must have been freed before the object, which is not checked; its destructor waits for
// the stream. Used by the thread of the device.
class CudaMemory : public DeviceMemory {
 public:
  // `device` is the thread's current GPU, now and in every call; `stream` is a stream of that GPU
  // and outlives the memory. Returns the errors of CudaStatus.
  static absl::StatusOr<std::unique_ptr<CudaMemory>> Create(int device, cudaStream_t stream);
  ~CudaMemory() override;

  absl::StatusOr<void*> Allocate(Bytes size, Lifetime lifetime) override;
  void Free(void* data) override;
  bool reuses_freed() const override { return is_virtual(); }

  // `held` returns the physical memory that is mapped now, used or not, a multiple of the 16 MiB of
  // a chunk. `held_peak` returns its maximum since the last `ResetPeak`, or since `Create` before
  // the first one. Both are 0 without virtual memory.
  Bytes held() const { return held_; }
  Bytes held_peak() const { return held_peak_; }
  // Returns unused chunks to the driver, after all work of the stream, and forgets earlier peaks.
  // Returns the errors of CudaStatus.
  absl::Status ResetPeak();

 private:
  // The addresses of one lifetime.
  struct Range {
    CUdeviceptr base = 0;
    BlockHeap heap;
    // Physical memory at `base + k * kChunk`; nothing is mapped where there is none.
    std::vector<std::optional<CUmemGenericAllocationHandle>> chunks;
  };

  CudaMemory(int device, cudaStream_t stream) : device_(device), stream_(stream) {}
  bool is_virtual() const { return ranges_.front().base != 0; }
  // Reserves the addresses, if the driver can; `calls` are its functions.
  absl::Status Reserve(const VirtualMemoryCalls& calls);
  // Maps chunks under [offset, offset + size). Returns the driver's first error; what was mapped
  // before it stays, and is unused.
  CUresult Map(Range& range, int64_t offset, int64_t size);
  CUresult MapChunk(Range& range, int64_t index);
  absl::StatusOr<void*> AllocateVirtual(int64_t size, Lifetime lifetime);
  // Returns unused chunks to the driver, after all work of the stream.
  absl::Status Trim();
  void TrimRange(Range& range, int64_t begin, int64_t end);

  const int device_;
  const cudaStream_t stream_;
  VirtualMemoryCalls calls_;
  // Bytes of addresses of each range; none where there is no virtual memory.
  int64_t reserved_ = 0;
  // [Lifetime]
  std::array<Range, 2> ranges_;
  Bytes held_;
  Bytes held_peak_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_MEMORY_H_
