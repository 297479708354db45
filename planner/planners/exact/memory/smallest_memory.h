// How much memory, and how many devices, a plan needs at least.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_SMALLEST_MEMORY_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_SMALLEST_MEMORY_H_

#include <optional>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// The least usable memory with which `exact` finds a plan, and a plan that needs no more.
struct SmallestMemory {
  Bytes usable_memory;
  Plan plan;
  // False: less may do. A limit ended the search; ends follow their neighbours; or plans
  // need more than the sums that are compared (outputs that are kept, the optimizer's step).
  bool is_proved = true;
};

// Over the whole declared space. Nothing when no plan exists whatever the memory.
std::optional<SmallestMemory> FindSmallestMemory(const StrategySpace& space, const CostModel& costs,
                                                 SearchMeter& meter);

// Whether any plan fits in the problem's memory. Absent where it is not settled, for the
// reasons above.
std::optional<bool> AnyPlanFits(const StrategySpace& space, const CostModel& costs,
                                SearchMeter& meter);

// The fewest devices, in whole nodes, with which some plan of `exact` fits: one node, two,
// and so on up to `kMostNodesTried` more than the problem has. Absent where one of the
// smaller numbers is not settled, or has not been measured. Cost models of other sizes are
// made here.
std::optional<int> FindSmallestDeviceCount(const PlanningProblem& problem, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_SMALLEST_MEMORY_H_
