// Files of the kernel that hold one fact.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_SMALL_FILE_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_SMALL_FILE_H_

#include <string>
#include <vector>

namespace parplan {

// The first 4 KiB of a file without white space around them; empty where it can't be read,
// as `speed` of a network that is down.
std::string ReadSmallFile(const std::string& path);

// Names in a folder, sorted; none where it is not there.
std::vector<std::string> ListFolder(const std::string& path);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_SMALL_FILE_H_
