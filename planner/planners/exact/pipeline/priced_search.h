// One candidate of a model with many layers: a bound and a good plan by prices of memory
// (priced_pipeline.h), where exact fronts of stages would be too many.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_SEARCH_H_

#include "planner/planners/exact/pipeline/pipeline_search.h"

namespace parplan {

// Layers from which on candidates are searched so.
inline constexpr int kManyLayers = 256;

// As `PipelineBound`.
Seconds PricedPipelineBound(const StrategySpace& space, const CostModel& costs,
                            const OptionTable& table, const PipelineCandidate& candidate,
                            Seconds most, SearchMeter& meter);

// As `SearchPipeline`, but the plan is not the best there is: stages are balanced at the
// prices, mixed of what is good at them, and moved where what they take differs.
PipelineOutcome SearchPricedPipeline(const StrategySpace& space, const CostModel& costs,
                                     const OptionTable& table, const PipelineCandidate& candidate,
                                     Seconds most, int wanted, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_SEARCH_H_
