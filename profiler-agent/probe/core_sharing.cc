#include "profiler-agent/probe/core_sharing.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

// Returns the only processor this thread may run on; -1 if there are several.
int OnlyProcessor() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) != 1) return -1;
  int processor = 0;
  while (CPU_ISSET(processor, &allowed) == 0) ++processor;
  return processor;
}

// Returns a number that ranks of one machine share: a whole number that a double can hold.
double MachineNumber() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return 0.0;
  constexpr size_t kExactIntegers = size_t{1} << 53;
  return static_cast<double>(std::hash<std::string_view>()(name) % kExactIntegers);
}

}  // namespace

absl::StatusOr<std::string> CoreSharingNote(Communicator& control) {
  const double own[] = {MachineNumber(), static_cast<double>(OnlyProcessor())};
  const int rank_count = control.size();
  std::vector<double> all(2 * static_cast<size_t>(rank_count));
  PARPLAN_RETURN_IF_ERROR(control.AllGather(ElementType::kFloat64, own, all.data(), 2));
  int free_count = 0;
  std::map<std::pair<double, double>, int> ranks_of_core;
  for (size_t rank = 0; rank < all.size(); rank += 2) {
    if (all[rank + 1] < 0) {
      ++free_count;
    } else {
      ++ranks_of_core[{all[rank], all[rank + 1]}];
    }
  }
  if (free_count > 0) {
    return absl::StrCat(free_count, " of ", rank_count,
                        " ranks were not bound to a core: the system may have moved them, or run "
                        "several on one.");
  }
  const auto fullest =
      std::max_element(ranks_of_core.begin(), ranks_of_core.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (fullest->second == 1) return std::string();
  return absl::StrCat(rank_count, " ranks shared ", ranks_of_core.size(), " cores, up to ",
                      fullest->second,
                      " on one: a rank's times do not say how long it waits for the others on its "
                      "core, so steps take longer than is predicted from them.");
}

}  // namespace parplan
