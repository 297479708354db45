// The processors and the memory that the CPU back end divides among its devices. A topology of
// these devices must be made from the same numbers, or plans for it are refused. The agent's
// inventory (profiler-agent/inventory/host_reader.h) takes the numbers from here.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_H_

#include "base/units.h"

namespace parplan {

// Returns the number of processors (hardware threads) to which this process may be bound: all of
// the machine, or those of its control group's cpuset. The number does not depend on the affinity
// mask of the calling thread, so every rank of a job on one machine gets the same. At least 1.
int UsableProcessorCount();

// Returns the memory of the machine; 0 if the system does not say.
Bytes MachineMemory();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_H_
