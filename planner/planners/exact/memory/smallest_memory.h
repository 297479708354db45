// The least memory, and the fewest devices, with which a plan exists.

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
  // False if less memory may suffice: a limit ended the search, end layers must follow their
  // neighbours, or plans need more than the sums that are compared (kept outputs, the optimizer's
  // step).
  bool is_proved = true;
};

// Searches the whole declared space. Returns nothing if no plan exists regardless of memory.
std::optional<SmallestMemory> FindSmallestMemory(const StrategySpace& space, const CostModel& costs,
                                                 SearchMeter& meter);

// Returns whether any plan fits in the problem's memory; nothing if that is undecided, for the
// reasons of `SmallestMemory::is_proved`.
std::optional<bool> AnyPlanFits(const StrategySpace& space, const CostModel& costs,
                                SearchMeter& meter);

// Returns the fewest devices, in whole nodes, with which some plan of `exact` fits: tries one node,
// two, and so on up to `kMaxNodesTried` more than the problem has. Returns nothing if a smaller
// number is undecided or was not measured. Creates cost models of the other sizes.
std::optional<int> FindSmallestDeviceCount(const PlanningProblem& problem, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_SMALLEST_MEMORY_H_
