// How much memory an interleaved plan needs at least.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_INTERLEAVED_MEMORY_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_INTERLEAVED_MEMORY_H_

#include <optional>

#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/memory/smallest_memory.h"

namespace parplan {

// The interleaved plan of the candidate that needs least, where that is less than
// `most`. Definition by definition, those not decided at their least.
std::optional<SmallestMemory> SmallestInterleavedMemory(const StrategySpace& space,
                                                        const CostModel& costs,
                                                        const OptionTable& table,
                                                        const PipelineCandidate& candidate,
                                                        Bytes most, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_INTERLEAVED_MEMORY_H_
