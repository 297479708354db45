// What the kernels of the processor are built on.

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_KERNEL_LIBRARIES_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_KERNEL_LIBRARIES_H_

#include <string>
#include <utility>
#include <vector>

namespace parplan {

// Names in lower case and releases, as the libraries themselves tell when the program runs.
std::vector<std::pair<std::string, std::string>> CpuKernelLibraries();

// The file that oneDNN was loaded from; empty where it is a part of the program.
std::string CpuKernelLibraryPath();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_KERNEL_LIBRARIES_H_
