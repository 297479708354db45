// Better partitions by moves of single layers. Used by the baselines and the Galvatron planners.
//
// Words (docs/glossary.md): a partition is the number of layers of each stage.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_PARTITION_MOVES_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_PARTITION_MOVES_H_

#include <cstdint>
#include <functional>

#include "planner/search/stage/stage_balance.h"

namespace parplan {

// Improves a partition in rounds. A round tries every move of one layer from the partition that was
// the best when it began: from any stage to any other with at most 8 stages, else only from the
// slowest; the nearest first. Ends after a round in which no move improved, or after
// `max_trial_count` moves. No stage becomes empty. O(stages^2) moves a round.
//
//   max_trial_count   calls of `improves` at most
//   slowest_stage     returns the slowest stage, from 0 on, of the best partition so far; called
//                     once at the beginning of each round; its answer is ignored with at most 8
//                     stages
//   improves          tries a partition, keeps it if it is better than all tried so far, and
//                     returns whether it was; the caller has tried `start`
//
// The adjustment of Galvatron-BMW (docs/papers.md 2.4) moves to neighbours only.
void MoveLayers(const Partition& start, int64_t max_trial_count,
                const std::function<int()>& slowest_stage,
                const std::function<bool(const Partition&)>& improves);

// Returns how many partitions to try for so many stages and micro-batches, so that the simulation
// of their schedules takes a bounded time; 0 if one alone takes longer. REQUIRES, unchecked: both
// counts are above 0.
int64_t MoveTrialCount(int stage_count, int64_t micro_batch_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_PARTITION_MOVES_H_
