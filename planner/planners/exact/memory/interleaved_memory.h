// The least memory of an interleaved plan. `FindSmallestMemory` calls it.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule; a definition is the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_INTERLEAVED_MEMORY_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_INTERLEAVED_MEMORY_H_

#include <optional>

#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/memory/smallest_memory.h"

namespace parplan {

// Returns the interleaved plan of the candidate that needs the least memory among those of listed
// partitions (interleaved_partitions.h), if less than `limit`; the best so far if `meter` ended it;
// nothing if there is none. `limit` and the result's `usable_memory` are bytes of one device that
// the plan may use, kept outputs and the optimizer's step included (`peak_memory_upper`); the
// memory of the problem is not asked. The plan's groups are the candidate's
// `micro_batch_group_size`. Partitions with too many passes (`FitsPassLimit`) are passed over.
// `is_proved` means nothing in it, and the candidate's schedule is not read. REQUIRES, unchecked:
// `table` is usable and of the candidate.
//
// Branches definition by definition, with undecided definitions at their least memory, and drops
// what needs `limit` or more by sums of memory; where sums are no lower bounds (smallest_memory.h),
// a better plan may be missed.
std::optional<SmallestMemory> SmallestInterleavedMemory(const StrategySpace& space,
                                                        const CostModel& costs,
                                                        const OptionTable& table,
                                                        const PipelineCandidate& candidate,
                                                        Bytes limit, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_INTERLEAVED_MEMORY_H_
