// What a micro-batch takes at least in a pipeline that goes on for ever.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_STEADY_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_STEADY_BOUND_H_

#include <cstdint>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// For one table, and so for all batches of its degree and micro-batch size: a step of m
// micro-batches, at least one for each stage, takes at least m times this, or m times
// `most`, whichever is less. Infinite where nothing fits and `most` is.
//
// Plans of so many micro-batches that fit also fit with one for each stage: 1F1B has no more
// than that in flight, and interleaved pipelines not fewer. A step is never less than m
// times the limit of its bounds a micro-batch, since what they have besides, messages,
// filling and synchronisation, is not negative. The limit is taken at a number of
// micro-batches so large that all that is too little to count.
//
// 1F1B or interleaved; GPipe has no such limit. REQUIRES: `table` is usable.
Seconds SteadyBound(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                    Schedule schedule, Seconds most, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_STEADY_BOUND_H_
