// The best interleaved plan of one pipeline degree and micro-batch count.
//
// Part of the declared space by enumeration: every definition has one strategy
// throughout, and stages are even (docs/search.md), so there are few plans and each is
// simulated, but for those a bound excludes.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_SEARCH_H_

#include <cstdint>
#include <vector>

#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/interleaved/interleaved_paths.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"

namespace parplan {

// Bounds of all micro-batches of one pipeline degree, whatever the memory.
class InterleavedBounds {
 public:
  InterleavedBounds(const StrategySpace& space, int pipeline_parallel_degree);

  // No plan with any number of virtual stages takes less; without step overhead. Infinite
  // where there is none.
  Seconds Bound(const LeastTimes& least, int64_t micro_batch_count) const;

 private:
  struct Partition {
    int stage_count = 0;
    InterleavedPaths paths;
  };
  std::vector<Partition> partitions_;
};

// No plan of the candidate that fits has a shorter step than this, or than `most`,
// whichever is less: each option of the definition with most layers by itself, where memory
// may suffice with the least of the others. Infinite where it suffices for none and `most`
// is. REQUIRES: as `SearchInterleaved`.
Seconds InterleavedMemoryBound(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, const PipelineCandidate& candidate,
                               Seconds most);

// The same for steps of any number of micro-batches, with the memory that the fewest need,
// one for each stage. More need no less: at each moment of the first backward passes of
// all chunks, which are those that count, as many forward passes are behind or more.
Seconds InterleavedSteadyBound(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, int64_t micro_batch_count, Seconds most);

// As `SearchPipeline`, over all virtual stage counts. REQUIRES: the degree is above 1 and
// divides the micro-batch count.
PipelineOutcome SearchInterleaved(const StrategySpace& space, const CostModel& costs,
                                  const OptionTable& table, const PipelineCandidate& candidate,
                                  Seconds most, int wanted, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_SEARCH_H_
