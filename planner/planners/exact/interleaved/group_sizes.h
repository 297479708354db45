// The sizes of groups of micro-batches above the pipeline degree, in which `exact` looks for
// interleaved plans. Used by the list of candidates, by the searches of this folder and by
// `FindSmallestMemory`.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_GROUP_SIZES_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_GROUP_SIZES_H_

#include <cstdint>
#include <vector>

#include "planner/search/space/strategy_space.h"

namespace parplan {

// Some of the sizes.
struct GroupSizes {
  // The sizes, ascending, each above the pipeline degree.
  std::vector<int64_t> tried;
  // Whether these are all there are.
  bool are_all = true;
};

// Returns the sizes of `Plan::micro_batch_group_size` other than 0 that the space has for so many
// micro-batches (`IsGroupSize`): all if there are at most 16, else up to 9 of them, the smallest
// and the largest (all micro-batches) among these. Empty, with `are_all`, if `HasGroupSizes` is
// false. O(micro-batches).
GroupSizes GroupSizesOf(const StrategySpace& space, int pipeline_parallel_degree,
                        int64_t micro_batch_count);

// Returns whether there are any: the space has the dimension `group-size`, the degree is above 1,
// and there are more micro-batches than that. Whether the space has interleaved plans of the degree
// is not asked (`InterleavedPartitionsOf`). O(1).
bool HasGroupSizes(const StrategySpace& space, int pipeline_parallel_degree,
                   int64_t micro_batch_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_GROUP_SIZES_H_
