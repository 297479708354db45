// Whether a node is free to be measured.

#ifndef PARPLAN_PROFILER_AGENT_MEASURE_NODE_LOAD_H_
#define PARPLAN_PROFILER_AGENT_MEASURE_NODE_LOAD_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "profiler-agent/inventory/node_inventory.h"

namespace parplan {

// Why `rank_count` cores are not free, one line; empty when they are. `load`: HostLoad(). Half
// a core may be busy with what every machine does.
std::string BusyCpuText(double load, int core_count, int rank_count);

// Why nobody should measure on `rank_count` such devices now: BusyCpuText by the load of this
// moment, or BusyGpuText.
std::string BusyText(const NodeInventory& inventory, DeviceType type, int rank_count);

// Whether this process has the ids that the driver knows it by: `link` names the namespace of
// its process ids, which containers have of their own.
bool HasIdsOfTheNode(const std::string& link = "/proc/self/ns/pid");

// Who computes on GPUs besides the ranks `own`, one line; empty where nobody does. Without the
// ids of the node a driver tells ids that nobody here knows, or none: then processes are counted,
// and others are seen where there are more than ranks.
std::string StrangersOn(const std::vector<GpuState>& gpus, const std::vector<pid_t>& own,
                        bool has_ids_of_the_node);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_NODE_LOAD_H_
