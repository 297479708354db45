#include "profiler-agent/measure/process_group.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace parplan {
namespace {

// Returns the group that /proc/PID/stat names; 0 if it cannot be read.
pid_t GroupIn(const std::string& path) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // "PID (NAME) STATE PARENT GROUP ...", where the name may have any characters.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(text).substr(end + 1), ' ', absl::SkipEmpty());
  pid_t group = 0;
  return fields.size() > 2 && absl::SimpleAtoi(fields[2], &group) ? group : 0;
}

}  // namespace

std::vector<pid_t> ProcessesOfGroup(pid_t group, const std::string& proc) {
  std::vector<pid_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(proc, error), end; !error && entry != end;
       entry.increment(error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->path().filename().string(), &pid)) continue;
    if (GroupIn((entry->path() / "stat").string()) == group) found.push_back(pid);
  }
  return found;
}

}  // namespace parplan
