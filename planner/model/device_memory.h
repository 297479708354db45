// The size of the device that a plan needs. Every planner names it in the answer that nothing fits.

#ifndef PARPLAN_PLANNER_MODEL_DEVICE_MEMORY_H_
#define PARPLAN_PLANNER_MODEL_DEVICE_MEMORY_H_

#include "base/units.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Returns the least device memory, in whole MiB, of which `usable` is left under the problem's
// headroom and reserve.
Bytes DeviceMemoryFor(const PlanningProblem& problem, Bytes usable);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_DEVICE_MEMORY_H_
