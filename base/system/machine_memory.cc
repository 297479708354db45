#include "base/system/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace parplan {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the smallest limit in files `name` of a group and of the groups around it in
// `root`. `max`, and a file that is not there, are no limit.
int64_t SmallestLimit(const std::string& root, std::string group, const char* name) {
  int64_t smallest = kNoLimit;
  while (true) {
    int64_t limit = 0;
    if (absl::SimpleAtoi(ReadText(absl::StrCat(root, group, "/", name)), &limit)) {
      smallest = std::min(smallest, limit);
    }
    const size_t last = group.rfind('/');
    if (last == std::string::npos) return smallest;
    group.resize(last);
  }
}

}  // namespace

int64_t ControlGroupBytes(const std::string& groups, const std::string& root) {
  int64_t smallest = kNoLimit;
  for (const absl::string_view line : absl::StrSplit(groups, '\n', absl::SkipEmpty())) {
    // Its number, its controllers and its path, which may have colons.
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[1].empty()) {
      smallest = std::min(smallest, SmallestLimit(root, parts[2], "memory.max"));
    }
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      smallest = std::min(smallest, SmallestLimit(absl::StrCat(root, "/memory"), parts[2],
                                                  "memory.limit_in_bytes"));
    }
  }
  return smallest;
}

int64_t UsableMemoryBytes() {
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::min(machine, ControlGroupBytes(ReadText("/proc/self/cgroup"), "/sys/fs/cgroup"));
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return file ? resident_pages * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace parplan
