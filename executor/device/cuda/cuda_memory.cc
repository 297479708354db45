#include "executor/device/cuda/cuda_memory.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "executor/device/cuda/cuda_status.h"

namespace parplan::cuda {
namespace {

// A piece of physical memory. Those beside a hole between arrays are partly used; mapping one takes
// about 0.1 ms. A multiple of the 2 MiB in which GPUs map memory.
constexpr int64_t kChunk = int64_t{16} << 20;
// The version in which the driver has had all functions of VirtualMemoryCalls.
constexpr unsigned kDriverVersion = 11000;

// Looks up a function of the driver; leaves it null if the driver has none.
template <typename Function>
bool Find(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      ::cudaGetDriverEntryPointByVersion(name, &found, kDriverVersion, cudaEnableDefault, &result);
#else
  const cudaError_t error = ::cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) {
    // CUDA must not return this error again from a later call.
    static_cast<void>(::cudaGetLastError());
    return false;
  }
  function = reinterpret_cast<Function>(found);
  return function != nullptr;
}

bool FindCalls(VirtualMemoryCalls& calls) {
  return Find("cuMemAddressReserve", calls.reserve) &&
         Find("cuMemAddressFree", calls.free_reserved) && Find("cuMemCreate", calls.create) &&
         Find("cuMemRelease", calls.release) && Find("cuMemMap", calls.map) &&
         Find("cuMemUnmap", calls.unmap) && Find("cuMemSetAccess", calls.set_access);
}

// Returns whether a device has virtual memory, and finds the driver's functions of it.
bool HasVirtualMemory(int device, VirtualMemoryCalls& calls) {
  decltype(&::cuDeviceGetAttribute) get_attribute = nullptr;
  decltype(&::cuMemGetAllocationGranularity) get_granularity = nullptr;
  int has = 0;
  if (!FindCalls(calls) || !Find("cuDeviceGetAttribute", get_attribute) ||
      !Find("cuMemGetAllocationGranularity", get_granularity) ||
      get_attribute(&has, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) !=
          CUDA_SUCCESS ||
      has == 0) {
    return false;
  }
  const CUmemAllocationProp memory = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
  size_t granularity = 0;
  return get_granularity(&granularity, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
         granularity > 0 && kChunk % static_cast<int64_t>(granularity) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaMemory>> CudaMemory::Create(int device, cudaStream_t stream) {
  std::unique_ptr<CudaMemory> memory(new CudaMemory(device, stream));
  VirtualMemoryCalls calls;
  if (HasVirtualMemory(device, calls)) PARPLAN_RETURN_IF_ERROR(memory->Reserve(calls));
  return memory;
}

absl::Status CudaMemory::Reserve(const VirtualMemoryCalls& calls) {
  size_t free = 0;
  size_t total = 0;
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMemGetInfo(&free, &total));
  // Addresses cost nothing, and free ranges between arrays need some without memory.
  const int64_t chunk_count = 2 * ((static_cast<int64_t>(total) + kChunk - 1) / kChunk);
  for (Range& range : ranges_) {
    if (calls.reserve(&range.base, static_cast<size_t>(chunk_count * kChunk), 0, 0, 0) !=
        CUDA_SUCCESS) {
      if (is_virtual()) {
        calls.free_reserved(ranges_.front().base, static_cast<size_t>(chunk_count * kChunk));
      }
      ranges_.front().base = 0;
      return absl::OkStatus();
    }
    range.chunks.resize(static_cast<size_t>(chunk_count));
  }
  calls_ = calls;
  reserved_ = chunk_count * kChunk;
  return absl::OkStatus();
}

CudaMemory::~CudaMemory() {
  if (!is_virtual()) return;
  static_cast<void>(::cudaStreamSynchronize(stream_));
  for (Range& range : ranges_) {
    TrimRange(range, 0, reserved_);
    calls_.free_reserved(range.base, static_cast<size_t>(reserved_));
  }
}

CUresult CudaMemory::MapChunk(Range& range, int64_t index) {
  const CUmemAllocationProp memory = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_}};
  const CUdeviceptr address = range.base + static_cast<CUdeviceptr>(index * kChunk);
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = calls_.create(&handle, kChunk, &memory, 0);
  if (result != CUDA_SUCCESS) return result;
  result = calls_.map(address, kChunk, 0, handle, 0);
  if (result == CUDA_SUCCESS) {
    const CUmemAccessDesc access = {.location = memory.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = calls_.set_access(address, kChunk, &access, 1);
    if (result != CUDA_SUCCESS) calls_.unmap(address, kChunk);
  }
  if (result != CUDA_SUCCESS) {
    calls_.release(handle);
    return result;
  }
  range.chunks[static_cast<size_t>(index)] = handle;
  held_ += Bytes::Of(kChunk);
  held_peak_ = std::max(held_peak_, held_);
  return CUDA_SUCCESS;
}

CUresult CudaMemory::Map(Range& range, int64_t offset, int64_t size) {
  for (int64_t k = offset / kChunk; k * kChunk < offset + size; ++k) {
    if (range.chunks[static_cast<size_t>(k)].has_value()) continue;
    const CUresult result = MapChunk(range, k);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

absl::StatusOr<void*> CudaMemory::AllocateVirtual(int64_t size, Lifetime lifetime) {
  Range& range = ranges_[static_cast<size_t>(lifetime)];
  const auto no_memory = [&] {
    return absl::ResourceExhaustedError(
        absl::StrCat("an array of ", size, " bytes of the GPU: it has no memory for it"));
  };
  if (size > reserved_ / 2) return no_memory();
  const int64_t offset = range.heap.Take(size);
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  absl::Status trimmed;
  if (offset + size <= reserved_) {
    result = Map(range, offset, size);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      // Chunks of both ranges may be unused.
      trimmed = Trim();
      if (trimmed.ok()) result = Map(range, offset, size);
    }
  }
  if (result == CUDA_SUCCESS) return reinterpret_cast<void*>(range.base + offset);
  range.heap.Give(offset);
  PARPLAN_RETURN_IF_ERROR(trimmed);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) {
    return absl::InternalError(absl::StrCat("an array of ", size, " bytes of the GPU: error ",
                                            static_cast<int>(result), " of the driver"));
  }
  // The chunks that there were.
  PARPLAN_RETURN_IF_ERROR(Trim());
  return no_memory();
}

absl::StatusOr<void*> CudaMemory::Allocate(Bytes size, Lifetime lifetime) {
  // An array of no bytes is not null.
  const int64_t byte_count = std::max<int64_t>(1, size.count());
  if (is_virtual()) return AllocateVirtual(byte_count, lifetime);
  void* data = nullptr;
  const cudaError_t error = ::cudaMalloc(&data, static_cast<size_t>(byte_count));
  if (error != cudaSuccess) {
    // This call returns the error; CUDA must not return it again from a later one.
    static_cast<void>(::cudaGetLastError());
    return CudaStatus(error, absl::StrCat("an array of ", size.count(), " bytes of the GPU"));
  }
  return data;
}

void CudaMemory::Free(void* data) {
  if (!is_virtual()) {
    // Fails only after an error that the queue returns.
    static_cast<void>(::cudaFree(data));
    return;
  }
  const CUdeviceptr address = reinterpret_cast<CUdeviceptr>(data);
  for (Range& range : ranges_) {
    if (address < range.base || address - range.base >= static_cast<CUdeviceptr>(reserved_)) {
      continue;
    }
    range.heap.Give(static_cast<int64_t>(address - range.base));
    return;
  }
  PARPLAN_CHECK(data == nullptr);
}

void CudaMemory::TrimRange(Range& range, int64_t begin, int64_t end) {
  for (int64_t k = (begin + kChunk - 1) / kChunk; (k + 1) * kChunk <= end; ++k) {
    std::optional<CUmemGenericAllocationHandle>& chunk = range.chunks[static_cast<size_t>(k)];
    if (!chunk.has_value()) continue;
    calls_.unmap(range.base + static_cast<CUdeviceptr>(k * kChunk), kChunk);
    calls_.release(*std::exchange(chunk, std::nullopt));
    held_ -= Bytes::Of(kChunk);
  }
}

absl::Status CudaMemory::Trim() {
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaStreamSynchronize(stream_));
  for (Range& range : ranges_) {
    if (range.base == 0) continue;
    for (const auto& [begin, end] : range.heap.free_ranges()) TrimRange(range, begin, end);
    TrimRange(range, range.heap.end(), reserved_);
  }
  return absl::OkStatus();
}

absl::Status CudaMemory::ResetPeak() {
  PARPLAN_RETURN_IF_ERROR(Trim());
  held_peak_ = held_;
  return absl::OkStatus();
}

}  // namespace parplan::cuda
