// The partitions of interleaved pipelines: stages are even (docs/search.md).

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PARTITIONS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PARTITIONS_H_

#include <cstdint>
#include <vector>

#include "planner/search/space/strategy_space.h"

namespace parplan {

struct InterleavedPartition {
  int virtual_stage_count = 2;
  // Layers of every virtual stage, in the order of the model.
  std::vector<int> layer_counts;
};

// All of the space at `pipeline_parallel_degree`, by virtual stages a device, which are at
// least 2 each. Empty where the space has no interleaved plans of the degree.
std::vector<InterleavedPartition> InterleavedPartitions(const StrategySpace& space,
                                                        int pipeline_parallel_degree);

// Whether a step of so many micro-batches through so many stages is in the space.
bool FitsPassLimit(int64_t micro_batch_count, int stage_count);

// Layers of every virtual stage, in the order of the model; empty when none is even.
// At most four partitions, distinct.
std::vector<std::vector<int>> EvenPartitions(const StrategySpace& space, int stage_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PARTITIONS_H_
