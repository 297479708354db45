// How much memory, and how many devices, a plan needs at least.

#ifndef PARPLAN_PLANNER_SEARCH_SMALLEST_MEMORY_H_
#define PARPLAN_PLANNER_SEARCH_SMALLEST_MEMORY_H_

#include <optional>

#include "planner/base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/search/search_meter.h"
#include "planner/search/strategy_space.h"

namespace parplan {

// The least usable memory with which `exact` finds a plan, and a plan that needs no more.
struct SmallestMemory {
  Bytes usable_memory;
  Plan plan;
  // False when a limit ended the search: less may do.
  bool is_proved = true;
};

// Over the whole declared space. Nothing when no plan exists whatever the memory.
std::optional<SmallestMemory> FindSmallestMemory(const StrategySpace& space, const CostModel& costs,
                                                 SearchMeter& meter);

// Whether any plan fits in the problem's memory: the same with an early end.
bool AnyPlanFits(const StrategySpace& space, const CostModel& costs, SearchMeter& meter);

// The fewest devices, in whole nodes, with which some plan of `exact` fits, tried one
// node after the other up to `kMostNodesTried` more. `costs` of other sizes are
// made here; sizes whose measurements are missing are passed over.
std::optional<int> FindSmallestDeviceCount(const PlanningProblem& problem, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SMALLEST_MEMORY_H_
