// Memory that a CPU device holds for a process in addition to arrays. `Device::MemoryUse` of the
// CPU back end returns it to `parplan-exec` and to the agent's probe.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_CONTEXT_MEMORY_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_CONTEXT_MEMORY_H_

#include "base/units.h"

namespace parplan {

// Returns the size of the private pages (`PrivateMemoryOf`, process_memory.h) of the library
// oneDNN: the data of its file, not the memory that it allocates. The size is the same in every
// program that trains, from the program's start on. The pages of the program's own file are not
// counted, because the program that measures layers is not the one that trains. Threads and message
// buffers (some 40 KiB) are not counted either. 0 if oneDNN is linked statically, or if the system
// does not say. Any thread may call it.
Bytes CpuContextMemory();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_CONTEXT_MEMORY_H_
