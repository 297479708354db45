// Memory of a process besides the arrays it computes with.

#ifndef PARPLAN_CLIENTS_DEVICE_BACKEND_PROCESS_MEMORY_H_
#define PARPLAN_CLIENTS_DEVICE_BACKEND_PROCESS_MEMORY_H_

#include "planner/base/units.h"

namespace parplan {

// What is in memory for this process alone now. Programs' code and other files, which are in
// memory once for all ranks and differ from program to program, do not count; nor does memory
// shared with other ranks. 0 where the system does not tell.
Bytes PrivateMemory();

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_DEVICE_BACKEND_PROCESS_MEMORY_H_
