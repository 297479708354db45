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
// partitions (interleaved_partitions.h), if less than `limit`; the best so far if `meter` ended it.
// `is_proved` means nothing in it, and the candidate's schedule is not read.
// Branches definition by definition, with undecided definitions at their least memory.
std::optional<SmallestMemory> SmallestInterleavedMemory(const StrategySpace& space,
                                                        const CostModel& costs,
                                                        const OptionTable& table,
                                                        const PipelineCandidate& candidate,
                                                        Bytes limit, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_INTERLEAVED_MEMORY_H_
