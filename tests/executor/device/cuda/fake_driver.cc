// The driver's virtual memory, of the host's: addresses are reserved without access, and mapped
// chunks can be read and written. What is not mapped ends the process when it is touched.

#include <cuda.h>
#include <sys/mman.h>

#include <map>
#include <mutex>
#include <string>

#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/fake_runtime.h"

namespace parplan::fake {
namespace {

constexpr size_t kGranularity = size_t{2} << 20;

struct Chunk {
  int device = 0;
  size_t size = 0;
  bool is_mapped = false;
};

std::map<CUmemGenericAllocationHandle, Chunk> chunks;
CUmemGenericAllocationHandle last_handle = 0;
// Mapped chunks by address.
std::map<CUdeviceptr, CUmemGenericAllocationHandle> mapped;

void* At(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUresult GetAttribute(int* value, CUdevice_attribute, CUdevice) {
  *value = TheFakeCuda().has_virtual_memory ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult GetGranularity(size_t* size, const CUmemAllocationProp*,
                        CUmemAllocationGranularity_flags) {
  *size = kGranularity;
  return CUDA_SUCCESS;
}
CUresult Reserve(CUdeviceptr* address, size_t size, size_t, CUdeviceptr, unsigned long long) {
  void* const made =
      ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(made);
  return CUDA_SUCCESS;
}
CUresult FreeReserved(CUdeviceptr address, size_t size) {
  const std::lock_guard<std::mutex> lock(mutex);
  // The driver also refuses to free addresses under which something is mapped.
  const auto first = mapped.lower_bound(address);
  if (first != mapped.end() && first->first < address + size) return CUDA_ERROR_INVALID_VALUE;
  ::munmap(At(address), size);
  return CUDA_SUCCESS;
}
CUresult Create(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* kind,
                unsigned long long) {
  if (size == 0 || size % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  const int device = kind->location.id;
  if (HeldBytes(device) + size > kMemory - kContext) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard<std::mutex> lock(mutex);
  *handle = ++last_handle;
  chunks[*handle] = {.device = device, .size = size};
  TheFakeCuda().allocated_bytes += static_cast<int64_t>(size);
  return CUDA_SUCCESS;
}
CUresult Release(CUmemGenericAllocationHandle handle) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = chunks.find(handle);
  if (found == chunks.end() || found->second.is_mapped) return CUDA_ERROR_INVALID_VALUE;
  chunks.erase(found);
  return CUDA_SUCCESS;
}
CUresult Map(CUdeviceptr address, size_t size, size_t, CUmemGenericAllocationHandle handle,
             unsigned long long) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = chunks.find(handle);
  if (found == chunks.end() || found->second.is_mapped || found->second.size != size ||
      mapped.contains(address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->second.is_mapped = true;
  mapped[address] = handle;
  return CUDA_SUCCESS;
}
CUresult SetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc*, size_t) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!mapped.contains(address)) return CUDA_ERROR_INVALID_VALUE;
  ::mprotect(At(address), size, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}
CUresult Unmap(CUdeviceptr address, size_t size) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = mapped.find(address);
  if (found == mapped.end() || chunks[found->second].size != size) return CUDA_ERROR_INVALID_VALUE;
  chunks[found->second].is_mapped = false;
  mapped.erase(found);
  ::mmap(At(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
  return CUDA_SUCCESS;
}

}  // namespace

size_t HeldBytes(int device) {
  const std::lock_guard<std::mutex> lock(mutex);
  size_t sum = 0;
  for (const auto& [unused, chunk] : chunks) sum += chunk.device == device ? chunk.size : 0;
  return sum;
}

void* FindDriverCall(const char* name) {
  const std::map<std::string, void*> calls = {
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(&GetAttribute)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&GetGranularity)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&Reserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&FreeReserved)},
      {"cuMemCreate", reinterpret_cast<void*>(&Create)},
      {"cuMemRelease", reinterpret_cast<void*>(&Release)},
      {"cuMemMap", reinterpret_cast<void*>(&Map)},
      {"cuMemUnmap", reinterpret_cast<void*>(&Unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&SetAccess)},
  };
  const auto found = calls.find(name);
  return found == calls.end() ? nullptr : found->second;
}

}  // namespace parplan::fake
