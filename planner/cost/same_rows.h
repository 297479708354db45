// Whether two strategies leave every row of activations on the same rank, so that a change from one
// to the other between two layers moves none. `GroupCosts` asks it for runtimes that change a
// layout by one all-to-all (`RuntimeTraits::exchanges_layouts`).

#ifndef PARPLAN_PLANNER_COST_SAME_ROWS_H_
#define PARPLAN_PLANNER_COST_SAME_ROWS_H_

#include "planner/model/strategy.h"

namespace parplan {

// Returns whether each rank of a stage holds the same rows between layers under both strategies. A
// row is one token of one sample. The rules are those of planner/program/activation_layout.h:
//   - Samples are divided among data-parallel ranks.
//   - The tokens of a sample are divided among context-parallel ranks: each gets one contiguous
//     piece with Ulysses, and one piece from either end with every other kind.
//   - The tokens of a context-parallel rank are divided among tensor-parallel ranks with sequence
//     parallelism; without it, each tensor-parallel rank holds all of them.
// The answer holds for every number of samples and tokens that both strategies divide. Takes time
// linear in the number of ranks if both divide rows into equally many parts, but tensor-parallel
// degree or order of ranks differ; else O(1). REQUIRES, unchecked: both strategies have the same
// rank_count(); otherwise the answer means nothing.
bool HoldSameRows(const Strategy& a, const Strategy& b);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_SAME_ROWS_H_
