// The best interleaved plan of one pipeline degree and micro-batch count.
//
// Part of the declared space by enumeration: every definition has one strategy
// throughout, and stages are even (docs/search.md), so there are few plans and each is
// simulated, but for those a bound excludes.

#ifndef PARPLAN_PLANNER_SEARCH_INTERLEAVED_SEARCH_H_
#define PARPLAN_PLANNER_SEARCH_INTERLEAVED_SEARCH_H_

#include <vector>

#include "planner/search/pipeline_search.h"

namespace parplan {

// Virtual stages a device can have at `pipeline_parallel_degree`, ascending, each at
// least 2.
std::vector<int> VirtualStageCounts(const StrategySpace& space, int pipeline_parallel_degree);

// Layers of every virtual stage, in the order of the model; empty when none is even.
// At most four partitions, distinct.
std::vector<std::vector<int>> EvenPartitions(const StrategySpace& space, int stage_count);

// No plan of the candidate with any number of virtual stages takes less. Quick.
Seconds InterleavedBound(const StrategySpace& space, const LeastTimes& least,
                         const PipelineCandidate& candidate);

// As `SearchPipeline`, over all virtual stage counts. REQUIRES: the degree is above 1 and
// divides the micro-batch count.
PipelineOutcome SearchInterleaved(const StrategySpace& space, const CostModel& costs,
                                  const OptionTable& table, const PipelineCandidate& candidate,
                                  Seconds most, int wanted, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_INTERLEAVED_SEARCH_H_
