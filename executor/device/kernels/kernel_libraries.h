// The libraries that the processor's kernels are built on. `DeviceFacts` lists them.

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_KERNEL_LIBRARIES_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_KERNEL_LIBRARIES_H_

#include <string>
#include <utility>
#include <vector>

namespace parplan {

// Returns lower-case names and releases, as the libraries report them at run time.
std::vector<std::pair<std::string, std::string>> CpuKernelLibraries();

// Returns the file that oneDNN was loaded from; empty if it is linked statically.
std::string CpuKernelLibraryPath();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_KERNEL_LIBRARIES_H_
