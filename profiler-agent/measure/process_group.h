// The processes of a process group. `TorchJob` asks for those that a program started.

#ifndef PARPLAN_PROFILER_AGENT_MEASURE_PROCESS_GROUP_H_
#define PARPLAN_PROFILER_AGENT_MEASURE_PROCESS_GROUP_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace parplan {

// Returns the ids of the processes of a group, its leader and zombies included, in no order, as far
// as `proc` (where the system shows its processes) can be read; empty if it cannot be read at all.
// O(processes of the system). REQUIRES, unchecked: `group` is above 0.
std::vector<pid_t> ProcessesOfGroup(pid_t group, const std::string& proc = "/proc");

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_PROCESS_GROUP_H_
