// Peak memory of one rank of a pipeline, item by item.
//
// Model states are those of ZeRO (Rajbhandari et al., arXiv 1910.02054, section 3), activations
// those of activation_tensors.h, micro-batches in flight those of PipeDream-flush and its
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
#include "planner/cost/activation_tensors.h"
#include "planner/model/coefficients.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/strategy.h"

namespace parplan {

// The sizes that the memory of one layer on one tensor-parallel rank depends on; from
// `FootprintOf`, or measured.
struct LayerFootprint {
  LayerKind kind = LayerKind::kDecoder;
  // Parameters before sharding over data-parallel ranks. Experts are counted apart, because fewer
  // data-parallel ranks share them.
  int64_t parameter_count = 0;
  int64_t expert_parameter_count = 0;
  // Parameters of linear maps whose operands the precision quantises: the part of
  // `parameter_count` in them, or of all frozen parameters; and of `expert_parameter_count`.
  int64_t quantised_parameter_count = 0;
  int64_t quantised_expert_parameter_count = 0;
  // Parameters that are not trained, experts among them, and not part of the counts above: those
  // are then of the adapters.
  int64_t frozen_parameter_count = 0;
  // Parameters of the largest matrix, whose gradient exists on its own for a moment.
  int64_t largest_matrix_parameter_count = 0;
  // Parameters of the embedding's table on the same ranks if a head uses it.
  int64_t borrowed_parameter_count = 0;
  // Activations of one sample.
  ActivationBytes activations;
};

// Returns the footprint that follows from the definition. Matrices and tables are split over
// tensor-parallel ranks, tables after padding. Norms, and the part of an embedding beyond the token
// table (learned positions), are whole on every rank. `copies_tied_table` means that a head with
// a tied table, or a layer that predicts further tokens, has a copy of it because the embedding is
// on another stage.
LayerFootprint FootprintOf(const LayerDefinition& definition, Precision precision,
                           const RuntimeTraits& traits, const Strategy& strategy,
                           bool copies_tied_table);

// The memory of one layer on one rank, for micro-batches of a given size.
struct LayerMemory {
  // Held all the time.
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer_states;
  Bytes master_parameters;
  // Whole parameters of a sharded table, which are gathered for the whole pass.
  Bytes gathered_all_time;
  // Kept from forward to backward, for each micro-batch in flight.
  Bytes kept;
  // True if `kept` is the input of a layer that recomputes.
  bool kept_are_checkpoints = false;
  // Held only while the layer's backward pass runs: recomputed activations, gradients of
  // activations and of the largest matrix.
  Bytes running;
  // Part of `kept` that is freed before the layer needs most.
  Bytes freed;
  // Logits and loss, held while the layer runs.
  Bytes logits;
  // Whole parameters and gradients of a sharded layer, held while it runs.
  Bytes gathered;
  // Held only during the optimizer's step: fp32 copies of 16-bit gradients.
  Bytes step;
  // Message in which gradients are exchanged, if it is a copy of them.
  Bytes bucket;
  // Message that this layer would send to the next stage; 0 without a pipeline. While layers run,
  // one message is arriving and one is leaving.
  Bytes message;

  Bytes states() const { return parameters + gradients + optimizer_states + master_parameters; }
  // Returns the memory held only while the layer runs, less the part of `kept` that is freed.
  Bytes transient() const { return running - freed + logits + gathered + message * 2; }
};

// Returns everything but `message`. `samples` is the micro-batch of one rank. Data- and
// context-parallel ranks share sharded states; those of an expert are fewer by the expert-parallel
// degree.
LayerMemory MemoryOfLayer(const LayerFootprint& footprint, Precision precision, Optimizer optimizer,
                          const RuntimeTraits& traits, const Strategy& strategy, double samples);

// The bytes that a micro-batch keeps on a rank between its forward and its backward pass.
struct KeptBytes {
  Bytes activations;
  Bytes checkpoints;
  Bytes Sum() const { return activations + checkpoints; }
};

// One (virtual) stage of a rank: sums over its layers, and the backward pass that needs most.
struct StageMemory {
  // Held all the time.
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer_states;
  Bytes master_parameters;
  Bytes gathered_all_time;
  // Held only in the optimizer's step.
  Bytes step;
  Bytes bucket;
  // Kept by each micro-batch in flight.
  KeptBytes kept;

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
  // The largest `LayerMemory::transient` of any layer.
  Bytes most_transient;
  // Message of the last layer.
  Bytes message;

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

// The rank's place in the pipeline.
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
// rank; all model-parallel ranks; the pipeline, and one with each neighbour, since sending makes
// connections of its own; and the tied table.
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

// Returns the peak over the backward passes of all layers and the optimizer's step.
//
// The peak is exact for every schedule: for interleaved devices all moments of
// planner/model/in_flight.h are compared, since a device with a heavy first chunk is fullest some
// passes after its first backward pass. O(V), allocates nothing up to 32 virtual stages.
//
//   stages   [virtual stage], place.virtual_stage_count of them
RankMemory MemoryOfRank(absl::Span<const StageMemory* const> stages, const RankPlace& place,
                        const RuntimeTraits& traits, const Coefficients& coefficients);

// Returns the same peak from single layers; adds them up first.
RankMemory MemoryOfRank(absl::Span<const LayerMemoryRun> runs, const RankPlace& place,
                        const RuntimeTraits& traits, const Coefficients& coefficients);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_RANK_MEMORY_H_
