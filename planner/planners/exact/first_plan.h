// A plan of the space that is there at once, for searches that are stopped before they have one.
// `SearchExact` calls it.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_FIRST_PLAN_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_FIRST_PLAN_H_

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_result.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// Returns the fastest of a few plans of the largest batch size that have one strategy for all
// layers and about equally many transformer layers in each stage; nothing if none of them fits.
// Interleaved plans are not among them. Plans that need little memory come first, and only so many
// are priced as should take about 20 ms in all (not measured): for a thousand different layers that
// is one shape.
std::optional<PredictedPlan> FindFirstPlan(const StrategySpace& space, const CostModel& costs);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_FIRST_PLAN_H_
