// Finds the masks of options that are worth a look where all layers have one layout.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_UNDOMINATED_MASKS_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_UNDOMINATED_MASKS_H_

#include <vector>

#include "planner/search/space/option_table.h"

namespace parplan {

// The options of a mask (`OptionMask`), [definition] ascending.
using OptionLists = std::vector<std::vector<int>>;

// Returns the masks that no other dominates, in their order; among equal ones the first. A mask
// dominates another if for each option of the other it has one that is nowhere worse in plans that
// reshard nowhere, messages to other stages included. Asks `works`, if it is set; once that has
// returned false, there are none. Time: the square of the number of masks, in the worst case.
//
// REQUIRES, unchecked: the masks have options of the same definitions of `table`, which is usable.
std::vector<OptionLists> UndominatedMasks(const OptionTable& table, std::vector<OptionLists> masks,
                                          const WorkCounter& works);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_UNDOMINATED_MASKS_H_
