// Lower bounds of the layers after a run of a stage, by the layout the run ends with. `CasesOf`
// calls it.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_SUFFIX_COSTS_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_SUFFIX_COSTS_H_

#include "planner/search/stage/front_case.h"

namespace parplan {

// Sets `suffix_cost_of_layout` from options, cuts and `suffix`. Solves a shortest path from run to
// run, with moves between runs and, within a run, from its first layout through the cheapest to its
// last. O(cuts * runs * layouts^3).
void AddSuffixCostsByLayout(FrontCase& front_case);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_SUFFIX_COSTS_H_
