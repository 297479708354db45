// The options of a table as far as memory goes.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_MEMORY_OPTIONS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_MEMORY_OPTIONS_H_

#include <vector>

#include "planner/search/space/option_table.h"

namespace parplan {

// [definition] indices into `OptionTable::options`, ascending: of the options that `mask`
// allows those of which no other needs nowhere more (states, kept, transient,
// communicators); of equals the first. Empty for definitions without layers.
std::vector<std::vector<int>> LeanOptions(const ModelSpec& model, const OptionTable& table,
                                          const OptionMask& mask);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_MEMORY_OPTIONS_H_
