// The memory-balanced partition of Galvatron's public code. Used by the baselines, the Galvatron
// planners and the study of the 2022 code.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_GREEDY_SPLIT_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_GREEDY_SPLIT_H_

#include "absl/types/span.h"
#include "planner/search/stage/stage_balance.h"

namespace parplan {

// Times the mean above which a stage hands layers on in the code of Galvatron's releases.
inline constexpr double kTooFull = 1.3;

// Fills stages from the last one on up to the mean; a stage takes one more layer if at least half
// of it stays below the mean, and the first stage takes the rest. Then, from the first stage on,
// one above `too_full` times the mean gives layers to the next one as long as it has two, and one
// that got nothing takes a layer from the next (docs/papers.md 2.4).
//
//  layer_memory    [layer], in any unit
//  shared_memory   counts in the mean but in no stage
//  too_full        infinite in the authors' program of 2022, whose stages hand nothing on
//
// REQUIRES: 1 <= stage_count <= layers; aborts otherwise. If layers are so uneven that a stage ends
// with less than one layer, the partition is returned as it is, with a number of 0 or below.
Partition GreedyMemorySplit(absl::Span<const double> layer_memory, double shared_memory,
                            int stage_count, double too_full = kTooFull);

// Balances without shared memory into as many stages as `even` has; returns `even` if a stage would
// end with less than one layer. REQUIRES: `even` has at least one stage, and no more than there are
// layers; aborts otherwise.
Partition GreedyMemorySplitOr(absl::Span<const double> layer_memory, const Partition& even);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_GREEDY_SPLIT_H_
