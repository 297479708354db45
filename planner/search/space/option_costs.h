// All costs of an option as numbers, for comparing the sums over many options before the options
// themselves.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_OPTION_COSTS_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_OPTION_COSTS_H_

#include <array>

#include "planner/search/space/option_table.h"

namespace parplan {

// The costs of an option in plans that reshard nowhere: those that `StageOption::NowhereWorse`
// compares, and the bytes of the message to another stage with its time within a node and between
// nodes.
using OptionCosts = std::array<double, 13>;

// Returns the costs of an option of a definition. REQUIRES, unchecked: `table` is usable, and
// `option` is one of its options of `definition`, which a layer has.
OptionCosts CostsOfOption(const OptionTable& table, int definition, const StageOption& option);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_OPTION_COSTS_H_
