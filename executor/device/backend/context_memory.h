// What a device holds for a process besides arrays.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_CONTEXT_MEMORY_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_CONTEXT_MEMORY_H_

#include "base/units.h"

namespace parplan {

// Of the processor: what the library of its kernels, oneDNN, holds for this process alone. It is
// the same in every program that trains, from its start on. The program around it does not
// count, which is another one where layers are measured, nor do threads and buffers of messages
// (some 40 KiB). 0 where oneDNN is a part of the program, or the system does not tell.
Bytes CpuContextMemory();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_CONTEXT_MEMORY_H_
