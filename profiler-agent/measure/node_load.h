// Decides whether a node is free to be measured. Called by `MeasureNode`.

#ifndef PARPLAN_PROFILER_AGENT_MEASURE_NODE_LOAD_H_
#define PARPLAN_PROFILER_AGENT_MEASURE_NODE_LOAD_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "profiler-agent/inventory/node_inventory.h"

namespace parplan {

// Returns the reason why `rank_count` of the cores are not free, on one line; empty if they are.
// `load` is HostLoad() (host_reader.h). They are if `load` is at most the cores left over plus 0.5:
// every machine runs a few background processes. More ranks than cores need all cores.
std::string BusyCpuText(double load, int core_count, int rank_count);

// Returns the reason not to measure on `rank_count` devices of this type now, by BusyCpuText with
// the present load or by BusyGpuText; empty if there is none. BusyGpuText reads the states of GPUs
// that `inventory` holds, however old, and any GPU that is in use counts, whatever `rank_count` is.
std::string BusyText(const NodeInventory& inventory, DeviceType type, int rank_count);

// Returns whether the process ids seen here are those that the GPU driver reports. `link` names the
// namespace of this process's ids; containers usually have one of their own. False if it cannot be
// read.
bool HasIdsOfTheNode(const std::string& link = "/proc/self/ns/pid");

// Returns who computes on the GPUs other than the ranks `own`, on one line; empty if no one does.
// GPUs whose processes the driver does not list (GpuState::processes) are passed over.
// In a container the driver may report ids that are unknown here, or none. So unless
// `has_ids_of_the_node`, or one of `own` is among the ids, processes are counted, and others are
// noticed only if there are more processes than ranks.
std::string StrangersOn(const std::vector<GpuState>& gpus, const std::vector<pid_t>& own,
                        bool has_ids_of_the_node);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_NODE_LOAD_H_
