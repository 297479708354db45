// The search of one candidate of a model with many layers: a lower bound and a good plan from
// memory prices (priced_pipeline.h), because exact fronts of all stages would take too long.
// `SearchPipeline` and `BestFirstSearch` call it for such models.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a price is
// the Lagrangian multiplier of memory, in seconds per byte; a front is the ways to run a stage of
// which none is better than another in every time; a candidate is all plans of one batch size,
// pipeline degree, number of micro-batches and schedule.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_SEARCH_H_

#include "planner/planners/exact/pipeline/pipeline_search.h"

namespace parplan {

// Models with at least this many layers, embedding and head included, are searched by prices. Above
// it, fronts of all ranges of layers take seconds per candidate; below, exact fronts finish and
// their gaps are smaller (docs/search.md, "How time grows").
inline constexpr int kManyLayers = 256;

// Returns a bound as `PipelineBound` does, for any number of layers. REQUIRES, here and below,
// unchecked: `table` is as for `SearchPipeline`.
Seconds PricedPipelineBound(const StrategySpace& space, const CostModel& costs,
                            const OptionTable& table, const PipelineCandidate& candidate,
                            Seconds cutoff, SearchMeter& meter);

// Searches as `SearchPipeline` does, but the plan need not be the best: stages are balanced at the
// prices, mixed of what is good at them, and boundaries are moved until stage times are even. It
// does so under each mask, in the three cheapest layouts and in all together. If all plans it made
// need more memory than there is, it tries twice more with less. The outcome is exact only if its
// bound reaches `cutoff`, so that no plan is below it; else the plans found, if any, and the bound
// leave a gap.
PipelineOutcome SearchPricedPipeline(const StrategySpace& space, const CostModel& costs,
                                     const OptionTable& table, const PipelineCandidate& candidate,
                                     Seconds cutoff, int wanted, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_SEARCH_H_
