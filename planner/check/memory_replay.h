// The peak memory of a device, found by playing its passes. It checks the peak over passes that
// planner/cost/rank_memory.h computes; the bytes of each layer (`LayerMemory`) are taken as given.
// `CheckPlan` calls it for each device.

#ifndef PARPLAN_PLANNER_CHECK_MEMORY_REPLAY_H_
#define PARPLAN_PLANNER_CHECK_MEMORY_REPLAY_H_

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "planner/cost/layer_memory.h"
#include "planner/cost/rank_memory.h"
#include "planner/model/coefficients.h"
#include "planner/model/plan.h"
#include "planner/model/runtime_traits.h"

namespace parplan {

// The members of `RankMemory` that are checked, with their meaning.
struct ReplayedMemory {
  MemoryItems total;
  Bytes tensor_bound;
  int64_t in_flight_micro_batch_count = 0;
};

// Plays the device's passes one by one in the order of Megatron-LM's schedules.py: adds the memory
// that each forward pass keeps, and goes through the layers of each backward pass from the last to
// the first. Of equal moments the first counts.
//
// `layers` are those of all virtual stages of the device in the order of the model, one per entry;
// their `layer_count` is ignored. `coefficients` are `GroupCosts::memory_coefficients`. O(layers +
// passes) time. REQUIRES, unchecked: the counts of `place` are positive, its `stage_index` is the
// position of the device in the pipeline, below the degree, and the `virtual_stage_index` of each
// layer is below its `virtual_stage_count`.
ReplayedMemory ReplayMemory(const std::vector<LayerMemoryRun>& layers, const RankPlace& place,
                            const RuntimeTraits& runtime, const Coefficients& coefficients);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CHECK_MEMORY_REPLAY_H_
