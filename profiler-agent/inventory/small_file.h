// Reads kernel files that hold one value. Used by the reader of networks.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_SMALL_FILE_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_SMALL_FILE_H_

#include <string>
#include <vector>

namespace parplan {

// Returns the first 4 KiB of a file without surrounding white space; empty if it cannot be read,
// such as `speed` of a network interface that is down.
std::string ReadSmallFile(const std::string& path);

// Returns the names in a folder, sorted as texts; empty if the folder cannot be read.
std::vector<std::string> ListFolder(const std::string& path);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_SMALL_FILE_H_
