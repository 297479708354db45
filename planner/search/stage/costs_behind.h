// What the layers behind a run of a stage cost at least, by the layout the run ends with.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_COSTS_BEHIND_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_COSTS_BEHIND_H_

#include "planner/search/stage/front_case.h"

namespace parplan {

// Sets `cost_behind_layout` from options, cuts and `behind`. A shortest path from run to run:
// moves between runs, and within one from its first layout to the cheapest and on to its last.
// O(cuts * runs * layouts^3).
void AddCostsBehindLayouts(FrontCase& front_case);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_COSTS_BEHIND_H_
