// Better partitions by moves of single layers. Used by the baselines and the Galvatron planners.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_PARTITION_MOVES_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_PARTITION_MOVES_H_

#include <cstdint>
#include <functional>

#include "planner/search/stage/stage_balance.h"

namespace parplan {

// Moves layers between stages, one at a time, as long as that improves the partition: from any
// stage to any other if there are few, else from the slowest, the nearest first. Starts over from
// the best partition as soon as all moves from the last one were tried.
//
//  max_trial_count   calls of `improves` at most
//  slowest_stage     of the best partition so far
//  improves          tries a partition, and returns whether it is the best so far, `start` included
//
// The adjustment of Galvatron-BMW (docs/papers.md 2.4) moves to neighbours only.
void MoveLayers(const Partition& start, int64_t max_trial_count,
                const std::function<int()>& slowest_stage,
                const std::function<bool(const Partition&)>& improves);

// Returns how many partitions to try for so many stages and micro-batches, so that the simulation
// of their schedules takes a bounded time.
int64_t MoveTrialCount(int stage_count, int64_t micro_batch_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_PARTITION_MOVES_H_
