#include "executor/device/backend/context_memory.h"

#include "executor/device/backend/process_memory.h"
#include "executor/device/kernels/kernel_libraries.h"

namespace parplan {

Bytes CpuContextMemory() {
  const std::string library = CpuKernelLibraryPath();
  return library.empty() ? Bytes() : PrivateMemoryOf(library);
}

}  // namespace parplan
