// A lower bound of the time per micro-batch in an infinitely long pipeline. `BestFirstSearch`
// bounds candidates with it.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a
// candidate is all plans of one batch size, pipeline degree, number of micro-batches and schedule;
// micro-batches in flight have done their forward pass and not yet their backward pass.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_STEADY_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_STEADY_BOUND_H_

#include <cstdint>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// Returns a lower bound of (step time / m) for any number m of micro-batches that is at least the
// number of stages: a step takes at least m times the result, or m times `cutoff` if that is less.
// Both are seconds per micro-batch; the result may exceed `cutoff` by a millionth. Valid for all
// batch sizes of the table's degree and micro-batch size, with the memory of the problem of
// `space`. Infinite if nothing fits and `cutoff` is infinite; of no meaning if `meter` stopped.
//
// Any plan that fits with m micro-batches also fits with one per stage, because 1F1B has no more in
// flight than that, and interleaved pipelines have no fewer. The other terms of a step (messages,
// filling, synchronisation) are not negative, so the limit of the bounds per micro-batch, as m
// grows, is a bound for each m. The limit is evaluated at a number of micro-batches so large that
// those terms vanish.
//
// Only for 1F1B and interleaved schedules; GPipe has no such limit. The bound of the latter is that
// of the partitions that are searched with others (`SearchedPartitionsOf`), in groups of as many
// micro-batches as devices. REQUIRES, here and below, unchecked: `schedule` is one of the two;
// `table` is usable.
Seconds SteadyBound(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                    Schedule schedule, Seconds cutoff, SearchMeter& meter);

// Returns the same for interleaved plans of the partitions that are not listed
// (`UnlistedVirtualStageCounts`); `cutoff` if there are none.
Seconds UnevenSteadyBound(const StrategySpace& space, const CostModel& costs,
                          const OptionTable& table, Seconds cutoff, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_STEADY_BOUND_H_
