// A walk over the options that a mask allows (`OptionMask` of option_table.h).

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_ALLOWED_OPTIONS_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_ALLOWED_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace parplan {

// Calls `visit` with the index of each allowed option of a definition, ascending. Skips eight that
// are not allowed at a time: where all layers have one strategy, a mask allows one of thousands.
template <typename Visit>
void ForEachAllowed(const std::vector<char>& allowed, const Visit& visit) {
  for (size_t k = 0; k < allowed.size(); ++k) {
    uint64_t together = 1;
    while (k + sizeof(together) <= allowed.size()) {
      std::memcpy(&together, &allowed[k], sizeof(together));
      if (together != 0) break;
      k += sizeof(together);
    }
    if (k < allowed.size() && allowed[k] != 0) visit(static_cast<int>(k));
  }
}

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_ALLOWED_OPTIONS_H_
