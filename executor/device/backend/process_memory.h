// Memory of this process by mapped file, for `CpuContextMemory`: the memory that oneDNN takes.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_PROCESS_MEMORY_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_PROCESS_MEMORY_H_

#include <string>

#include "base/units.h"

namespace parplan {

// Returns the size of the pages of the mapped file `path` that this process has for itself because
// it has written to them; for a library its data and the addresses that the loader fills in.
// Symbolic links in `path` are followed, since the system lists mappings by their canonical path. 0
// if the file does not exist or is not mapped, or if the system does not say. Pages
// that are swapped out are not counted. Takes a millisecond in a small process, and some 20 ms more
// for each GiB that the process holds in small pages, since the system looks at every page.
Bytes PrivateMemoryOf(const std::string& path);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_PROCESS_MEMORY_H_
