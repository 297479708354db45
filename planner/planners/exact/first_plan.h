// A plan of the space that is there at once, for searches that are stopped before they have one.
// `SearchExact` calls it.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_FIRST_PLAN_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_FIRST_PLAN_H_

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_result.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// Returns the fastest of a few plans of the largest batch size whose layers run alike, with about
// equally many transformer layers in each stage; nothing if none of them fits or the model has no
// transformer layers. All layers have one strategy but for some fields: sequence parallelism and
// the degrees of experts may differ by definition, and if plans recompute, only transformer layers
// do, all of them fully.
//
// Each plan is in the space of `space` and fits the memory of its problem. Interleaved plans are
// not among them. Plans that need little memory come first, and only so many are priced as should
// take about 20 ms in all (not measured): for a thousand different layers that is one shape. No
// limit is asked, so that a search that was stopped can call it. `costs` are those of the problem
// of `space`, which is not checked.
std::optional<PredictedPlan> FindFirstPlan(const StrategySpace& space, const CostModel& costs);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_FIRST_PLAN_H_
