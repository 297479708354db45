#include "executor/device/ranks/core_order.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"

namespace parplan {

std::vector<int> CoresInOrder(const std::string& sysfs) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {0};
  std::vector<int> firsts;
  std::vector<int> others;
  std::set<std::string> seen;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed)) continue;
    std::string siblings;
    std::getline(std::ifstream(absl::StrCat(sysfs, "/devices/system/cpu/cpu", processor,
                                            "/topology/thread_siblings_list")),
                 siblings);
    // Without information each processor counts as a core.
    const bool is_first = siblings.empty() || seen.insert(siblings).second;
    (is_first ? firsts : others).push_back(processor);
  }
  firsts.insert(firsts.end(), others.begin(), others.end());
  return firsts;
}

}  // namespace parplan
