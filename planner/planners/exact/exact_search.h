// `exact`: the best plan of the declared space (docs/search.md), with a proof.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_SEARCH_H_

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// The plan of least time a sample over batches, depths, micro-batches, schedules,
// partitions and strategies, under the whole cost model (`PlanEvaluator`). `kOptimal`
// when the bound that was proved is the plan's own time; else `kFeasible` with the gap
// and the limit that ended the search (`kMethod`: the enumeration's own limit of nodes).
// Anytime: a limit ends it with the best plan so far. Deterministic on any number of
// threads. Nothing when no depth has a strategy for every layer.
std::optional<PlanningResult> SearchExact(const PlanningProblem& problem, const CostModel& costs,
                                          const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_SEARCH_H_
