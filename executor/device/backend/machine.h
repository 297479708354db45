// The machine as the CPU back end shares it among its devices. Whoever tells planners of these
// devices counts with the same numbers, or its plans are refused.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_H_

#include "base/units.h"

namespace parplan {

// Processors (hardware threads) that this process may be bound to: all of the machine, or those
// of its control group's cpuset. Not fewer where it is bound to some of them, as ranks are. At
// least 1.
int UsableProcessorCount();

// 0 where the system does not tell.
Bytes MachineMemory();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_H_
