// Peak memory of one rank of a pipeline, item by item.
//
// Layers are those of layer_memory.h, micro-batches in flight those of PipeDream-flush and its
// interleaved form (Narayanan et al., SC'21, section 2.2). The peak is taken over the layers'
// backward passes (docs/papers.md 2.2: notation of Galvatron-BMW from memory, unverified; the
// recurrence is derived). We add the peak of the optimizer step, logits, flat buckets, and memory
// outside tensors. docs/cost-model-memory.md has the formula and the source of every item.
//
// There are two views of the same peak. `allocated` is the most that the framework's allocator
// hands out (torch.cuda.max_memory_allocated). `total` is what the device shows (nvidia-smi): it
// adds context, communicators and fragmentation. `PlanEvaluator` and the option tables of the
// search add layers up by it.

#ifndef PARPLAN_PLANNER_COST_RANK_MEMORY_H_
#define PARPLAN_PLANNER_COST_RANK_MEMORY_H_

#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "base/units.h"
#include "planner/cost/layer_memory.h"
#include "planner/model/coefficients.h"
#include "planner/model/plan.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/strategy.h"

namespace parplan {

// The bytes that a micro-batch keeps on a rank between its forward and its backward pass.
struct KeptBytes {
  Bytes activations;
  Bytes checkpoints;
  // Returns all bytes kept.
  Bytes Sum() const { return activations + checkpoints; }
};

// One (virtual) stage of a rank: sums over its layers, and the backward pass that needs most.
struct StageMemory {
  // Held all the time; the last one not in the optimizer's step (`LayerMemory::gathered_all_time`).
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer_states;
  Bytes master_parameters;
  Bytes gathered_all_time;
  // The sum of the layers' (`LayerMemory::pass_gradients`).
  Bytes pass_gradients;
  // Held only in the optimizer's step.
  Bytes step;
  Bytes bucket;
  // The largest of any layer (`LayerMemory::placeholders`).
  Bytes placeholders;
  // Kept by each micro-batch in flight.
  KeptBytes kept;
  // Kept by each micro-batch between the two parts of its backward pass
  // (`LayerMemory::weight_gradients`).
  Bytes weight_gradients;

  // The layer whose backward pass needs most. Later layers have freed what they kept of this
  // micro-batch.
  struct Peak {
    // Bytes needed in addition to `kept`, less the bytes freed; may be negative.
    Bytes extra = Bytes::Of(std::numeric_limits<int64_t>::min() / 2);
    KeptBytes freed;
    Bytes running;
    Bytes logits;
    Bytes gathered;
    // Message to the next stage; `running` includes two of them.
    Bytes message;
    // Gradients that later layers have made. `first_peak` alone has some.
    Bytes gradients;
  };
  Peak peak;
  // The same of the first backward pass of a step if gradients are made in it
  // (`RuntimeTraits::makes_gradients_in_step`): those of later layers are there, and in `extra`.
  Peak first_peak;
  // The first part of a split backward pass, which frees nothing: the layer that needs most.
  Peak split_peak;
  // The largest `LayerMemory::transient` of any layer.
  Bytes most_transient;
  // The largest `LayerMemory::largest_tensor` of any layer.
  Bytes largest_tensor;
  // Message of the last layer.
  Bytes message;

  // Returns all that is held during all passes: the model's states and `gathered_all_time`.
  Bytes states() const {
    return parameters + gradients + optimizer_states + master_parameters + gathered_all_time;
  }
  // Appends `layer_count` equal layers. Of equal layers the last one's backward pass needs most,
  // because nothing is freed yet; so splitting a run in two changes nothing.
  void Add(const LayerMemory& layer, int64_t layer_count);
};

// Equal layers one after the other.
struct LayerMemoryRun {
  LayerMemory layer;
  int layer_count = 1;
  // Virtual stage of the rank, from 0. Runs are sorted by it.
  int virtual_stage_index = 0;
};

// The rank's place in the pipeline; `stage_index` is the position of its device, from 0.
struct RankPlace {
  Schedule schedule = kDefaultSchedule;
  int pipeline_parallel_degree = 1;
  int stage_index = 0;
  int virtual_stage_count = 1;
  int64_t micro_batch_count = 1;
  // See `Plan::micro_batch_group_size`.
  int64_t micro_batch_group_size = 0;
  // From `CommunicatorCount`.
  int communicator_count = 0;
};

// Returns the number of communicators that hold buffers: the world; each axis with more than one
// rank, and a context's with the data's; all model-parallel ranks; the pipeline, and one with each
// neighbour, since sending makes connections of its own; and the tied table.
int CommunicatorCount(const Strategy& strategy, int pipeline_parallel_degree,
                      bool has_tied_table_elsewhere);

// The peak memory of one rank.
struct RankMemory {
  MemoryItems allocated;
  // `allocated` and the memory outside the framework's allocator.
  MemoryItems total;
  // Part of the fragmentation in `total` that the allocator returns to the device before it fails.
  // A rank runs out of memory if `total` less this exceeds the device.
  Bytes released_on_demand;
  // True if the peak is in the optimizer's step and not in a backward pass.
  bool peak_in_optimizer_step = false;
  // Upper bound of the tensors at the peak that searches can add up layer by layer: all that is
  // kept at the fullest moment, and the largest need of any layer.
  Bytes tensor_bound;
  // Micro-batches that the rank's first virtual stage has in flight in the backward pass that needs
  // most: min(P - i, m) for 1F1B, m for GPipe, 1 without a pipeline.
  int64_t in_flight_micro_batch_count = 0;
};

// Returns the peak over the backward passes of all layers and the optimizer's step. `coefficients`
// are `GroupCosts::memory_coefficients`.
//
// The peak is exact for every schedule: for interleaved devices all moments of
// planner/model/in_flight.h are compared, since a device with a heavy first chunk is fullest some
// passes after its first backward pass. O(V), allocates nothing up to 32 virtual stages.
//
//   stages   [virtual stage], place.virtual_stage_count of them, none null, which is not checked
RankMemory MemoryOfRank(absl::Span<const StageMemory* const> stages, const RankPlace& place,
                        const RuntimeTraits& traits, const Coefficients& coefficients);

// Returns the same peak from single layers; adds them up first.
RankMemory MemoryOfRank(absl::Span<const LayerMemoryRun> runs, const RankPlace& place,
                        const RuntimeTraits& traits, const Coefficients& coefficients);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_RANK_MEMORY_H_
