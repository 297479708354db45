// How much memory this process may use, and has. The server asks it when it starts, and lets
// searches have half of it, at least `SearchPool::kMinSearchBytes`, unless its settings say
// otherwise.

#ifndef PARPLAN_BASE_SYSTEM_MACHINE_MEMORY_H_
#define PARPLAN_BASE_SYSTEM_MACHINE_MEMORY_H_

#include <cstdint>
#include <string>

namespace parplan {

// Returns the bytes of memory that this process may use: those of the machine, or the smallest
// limit of the process's control groups, of version 1 or 2, if that is less. Swap is not counted,
// and what this and other processes use already is not taken off. Reads files of /proc and /sys; a
// limit that cannot be read counts as none.
int64_t UsableMemoryBytes();

// Returns the smallest limit of the control groups that `groups`, the text of /proc/self/cgroup,
// names in the folder `root` (/sys/fs/cgroup), and of the groups around them; the largest number if
// there is none. For `UsableMemoryBytes` and tests.
int64_t ControlGroupBytes(const std::string& groups, const std::string& root);

// Returns the physical memory that this process has, in bytes; 0 if the system does not say. Reads
// a file of /proc, in some 10 us.
int64_t ResidentBytes();

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_MACHINE_MEMORY_H_
