// The processors that ranks are bound to. `RankProcesses` binds rank i to number i of them, from 0,
// and begins again after the last.

#ifndef PARPLAN_EXECUTOR_DEVICE_RANKS_CORE_ORDER_H_
#define PARPLAN_EXECUTOR_DEVICE_RANKS_CORE_ORDER_H_

#include <string>
#include <vector>

namespace parplan {

// Lists the processors that the calling thread may run on, by the system's numbers: first one of
// each core, then the other hardware threads of these cores. Both parts ascend. At least one.
// `sysfs`: mount point of sysfs, which says which processors are one core; a processor of which it
// says nothing counts as a core. {0} if the system does not say which these are.
std::vector<int> CoresInOrder(const std::string& sysfs = "/sys");

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_RANKS_CORE_ORDER_H_
