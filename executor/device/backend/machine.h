// The machine as the CPU back end divides it among its devices. Topologies of these devices must be
// made from the same numbers, or their plans are refused. The agent's inventory
// (profiler-agent/inventory/host_reader.h) takes them from here.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_H_

#include "base/units.h"

namespace parplan {

// Returns the number of processors (hardware threads) that this process may be bound to: all of the
// machine, or those of its control group's cpuset. Ranks that are bound to some of them get the
// same number. At least 1.
int UsableProcessorCount();

// Returns the memory of the machine; 0 if the system does not say.
Bytes MachineMemory();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_H_
