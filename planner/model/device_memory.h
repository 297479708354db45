// Sizes of devices: the one that a plan needs, which every planner names in the answer that nothing
// fits, and smaller ones than a problem has, which planners search so that more memory is never
// slower.

#ifndef PARPLAN_PLANNER_MODEL_DEVICE_MEMORY_H_
#define PARPLAN_PLANNER_MODEL_DEVICE_MEMORY_H_

#include <utility>
#include <vector>

#include "base/units.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Returns the least device memory, in whole MiB, of which `usable` is left under the problem's
// headroom and the reserve of its first node group.
Bytes DeviceMemoryFor(const PlanningProblem& problem, Bytes usable);

// Returns the sizes in GiB that devices are sold with, or nearly so, from 4 to 96, each with the
// memory that would be usable of it under the same headroom and reserve: those whose usable memory
// is above 0 and below `problem.usable_memory()`, the largest first. Empty if there are none.
std::vector<std::pair<int, Bytes>> SmallerDevices(const PlanningProblem& problem);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_DEVICE_MEMORY_H_
