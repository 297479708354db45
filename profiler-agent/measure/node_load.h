// Whether a node is free to be measured.

#ifndef PARPLAN_PROFILER_AGENT_MEASURE_NODE_LOAD_H_
#define PARPLAN_PROFILER_AGENT_MEASURE_NODE_LOAD_H_

#include <string>

#include "profiler-agent/inventory/node_inventory.h"

namespace parplan {

// Why `rank_count` cores are not free, one line; empty when they are. `load`: HostLoad(). Half
// a core may be busy with what every machine does.
std::string BusyCpuText(double load, int core_count, int rank_count);

// Why nobody should measure on `rank_count` such devices now: BusyCpuText by the load of this
// moment, or BusyGpuText.
std::string BusyText(const NodeInventory& inventory, DeviceType type, int rank_count);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_NODE_LOAD_H_
