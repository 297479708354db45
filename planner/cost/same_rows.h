// Whether a change of strategy between two layers moves activations. `GroupCosts` asks it for
// runtimes that exchange layouts at once.

#ifndef PARPLAN_PLANNER_COST_SAME_ROWS_H_
#define PARPLAN_PLANNER_COST_SAME_ROWS_H_

#include "planner/model/strategy.h"

namespace parplan {

// Returns whether each rank of a stage holds the same samples and tokens between layers under both
// strategies, by the rules of planner/program/activation_layout.h: data-parallel ranks share
// samples; context-parallel ranks share tokens, in order or, with rings, one piece from either end
// each; tensor-parallel ranks share the rest with sequence parallelism. O(ranks) for a few pairs,
// O(1) for most. REQUIRES: equal rank counts, which is not checked.
bool HoldSameRows(const Strategy& a, const Strategy& b);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_SAME_ROWS_H_
