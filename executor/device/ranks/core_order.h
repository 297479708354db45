// The cores that ranks are pinned to.

#ifndef PARPLAN_EXECUTOR_DEVICE_RANKS_CORE_ORDER_H_
#define PARPLAN_EXECUTOR_DEVICE_RANKS_CORE_ORDER_H_

#include <string>
#include <vector>

namespace parplan {

// Processors this process may use, as the system numbers them: one of each core first, then
// the other threads of these cores. At least one. `sysfs`: where the system tells which
// processors are one core.
std::vector<int> CoresInOrder(const std::string& sysfs = "/sys");

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_RANKS_CORE_ORDER_H_
