// The plan of the declared space that needs the least memory and, among those, the least time. The
// planner `min-memory-ilp` calls it.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_LEAST_MEMORY_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_LEAST_MEMORY_SEARCH_H_

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// A plan and the claims about it that are proved.
struct LeastMemoryPlan {
  // Predicted for the problem as asked, whose memory it may exceed.
  PredictedPlan predicted;
  // Whether no plan of the space has a smaller `peak_memory_upper`.
  bool memory_is_proved = false;
  // Whether no plan of the space within that peak takes less time per sample.
  bool time_is_proved = false;
};

// Finds the plan with the least `peak_memory_upper` of the whole declared space, whatever memory
// the problem has, and then the fastest plan within that peak. If the batch may vary, time is that
// per sample. Both are wanted to the byte and the second: the rules' number of plans and memory
// front and the wanted gap are not read.
//
// The start is the plan of `FindSmallestMemory`. If its sums of memory do not prove it to be the
// smallest, `exact` is asked for a plan of one byte less, until there is none, one of its own
// limits is reached, or 16 smaller plans were found. If that leaves it open whether a smaller plan
// exists, `memory_is_proved` is false. `exact` also finds the fastest plan within the peak. Each of
// these searches has a fixed number of states, so the answer is the same on any machine unless a
// limit of `meter` ended it. Then the answer is the best plan so far, and what was not proved by
// then is false.
//
// Counts all states on `meter`, whose control gives the threads; `control.on_progress` is not
// called. Returns nothing if `FindSmallestMemory` does: no plan that it looks at exists at any
// memory, or a limit ended the search before the first plan. `costs` are those of `problem`, which
// is not checked.
std::optional<LeastMemoryPlan> FindLeastMemoryPlan(const PlanningProblem& problem,
                                                   const CostModel& costs, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_LEAST_MEMORY_SEARCH_H_
