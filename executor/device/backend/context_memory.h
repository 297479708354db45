// Memory that a device holds for a process in addition to arrays. The CPU back end returns it by
// `Device::MemoryUse`, from which `parplan-exec` and the agent's probe take it.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_CONTEXT_MEMORY_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_CONTEXT_MEMORY_H_

#include "base/units.h"

namespace parplan {

// Returns the pages of the file of the processor's kernel library, oneDNN, that this process has
// for itself (`PrivateMemoryOf`): its data, not what it allocates. It is the same in every program
// that trains, from its start on. The program itself is not counted, since layers are measured by
// another program than the one that trains; nor are threads and message buffers (some 40 KiB). 0 if
// oneDNN is linked statically, or if the system does not say. Any thread may call it.
Bytes CpuContextMemory();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_CONTEXT_MEMORY_H_
