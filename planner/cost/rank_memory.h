// Peak memory of one rank of a pipeline stage, item by item.
//
// States as in ZeRO (Rajbhandari et al., arXiv 1910.02054, section 3), activations of
// activation_tensors.h, micro-batches in flight as in PipeDream-flush and its
// interleaved form (Narayanan et al., SC'21, section 2.2), the peak over the layers'
// backward passes as in Galvatron-BMW (papers.md 2.2). docs/cost-model-memory.md has
// the formula and the source of every item, and says what we add: the peak of the
// optimizer step, logits, flat buckets, and what lies outside tensors.
//
// Two views of the same peak: `allocated` is what the framework's allocator hands out
// at most (torch.cuda.max_memory_allocated); `total` is what the device shows
// (nvidia-smi), with context, communicators and fragmentation.

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

// What the memory of one layer depends on, on one tensor-parallel rank; from
// `FootprintOf`, or measured.
struct LayerFootprint {
  LayerKind kind = LayerKind::kDecoder;
  // Before sharding over data-parallel ranks. Experts apart: they have fewer
  // data-parallel ranks.
  int64_t parameter_count = 0;
  int64_t expert_parameter_count = 0;
  // The largest matrix among them: its gradient exists on its own for a moment.
  int64_t largest_matrix_parameter_count = 0;
  // Of the embedding on the same ranks, whose table a head uses.
  int64_t borrowed_parameter_count = 0;
  // Of one sample.
  ActivationBytes activations;
};

// From the definition alone. Matrices and tables are split over tensor-parallel ranks,
// tables after padding; norms, and in an embedding what is beyond the token table
// (learned positions), are whole on every rank. `copies_tied_table` says that a head
// with a tied table has a copy of it because the embedding is on another stage.
LayerFootprint FootprintOf(const LayerDefinition& definition, Precision precision,
                           const RuntimeTraits& traits, const Strategy& strategy,
                           bool copies_tied_table);

// Bytes of one layer on one rank, for micro-batches of a given size.
struct LayerMemory {
  // Held all the time.
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer_states;
  Bytes master_parameters;
  // Whole parameters of a sharded table: gathered for the whole pass.
  Bytes gathered_all_time;
  // Kept from forward to backward, for each micro-batch in flight.
  Bytes kept;
  // `kept` are inputs of layers that recompute.
  bool kept_are_checkpoints = false;
  // Only while the layer's backward pass runs: what it recomputes, gradients of
  // activations and of its largest matrix.
  Bytes running;
  // Of `kept`, what is gone by then.
  Bytes freed;
  // While it runs, of logits and loss.
  Bytes logits;
  // The same, whole parameters and gradients of a sharded layer.
  Bytes gathered;
  // Only while the optimizer steps: fp32 copies of 16-bit gradients.
  Bytes step;
  // Message in which its gradients are exchanged, where it is a copy.
  Bytes bucket;
  // Message to the next stage, as this layer would send it; 0 without pipeline. While
  // layers run one is coming and one is going.
  Bytes message;

  Bytes states() const { return parameters + gradients + optimizer_states + master_parameters; }
  // All that is there only while the layer runs, less what is gone.
  Bytes transient() const { return running - freed + logits + gathered + message * 2; }
};

// All but `message`. `samples` is the micro-batch of one rank. Data- and context-parallel ranks
// share what is sharded; those of an expert are fewer by the expert-parallel degree.
LayerMemory MemoryOfLayer(const LayerFootprint& footprint, Precision precision, Optimizer optimizer,
                          const RuntimeTraits& traits, const Strategy& strategy, double samples);

// What a micro-batch leaves on a rank between its forward and its backward pass.
struct KeptBytes {
  Bytes activations;
  Bytes checkpoints;
  Bytes Sum() const { return activations + checkpoints; }
};

// One (virtual) stage of a rank: sums over its layers, and which of their backward
// passes needs most.
struct StageMemory {
  // Held all the time.
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer_states;
  Bytes master_parameters;
  Bytes gathered_all_time;
  // Only in the optimizer's step.
  Bytes step;
  Bytes bucket;
  // Of each micro-batch in flight.
  KeptBytes kept;

  // The layer whose backward pass needs most. Those behind it have freed what they kept
  // of this micro-batch.
  struct Peak {
    // What is needed besides `kept`, less what is freed; may be negative.
    Bytes extra = Bytes::Of(std::numeric_limits<int64_t>::min() / 2);
    KeptBytes freed;
    Bytes running;
    Bytes logits;
    Bytes gathered;
    // To the next stage; `running` has two of them.
    Bytes message;
  };
  Peak peak;
  // The most any layer needs while it runs, whatever is freed.
  Bytes most_transient;
  // Of the last layer.
  Bytes message;

  Bytes states() const {
    return parameters + gradients + optimizer_states + master_parameters + gathered_all_time;
  }
  // Adds layers behind those that are there. Of equal layers the last one's backward
  // pass needs most, because nothing is freed yet; so a run that is split in two
  // changes nothing.
  void Add(const LayerMemory& layer, int64_t layer_count);
};

// Equal layers one after the other.
struct LayerMemoryRun {
  LayerMemory layer;
  int layer_count = 1;
  // The virtual stage of the rank they are in, from 0; runs are in its order.
  int virtual_stage_index = 0;
};

// The rank's place in the pipeline.
struct RankPlace {
  Schedule schedule = kDefaultSchedule;
  int pipeline_parallel_degree = 1;
  int stage_index = 0;
  int virtual_stage_count = 1;
  int64_t micro_batch_count = 1;
  // See `CommunicatorCount`.
  int communicator_count = 0;
};

// Communicators that hold buffers: the world; each axis with more than one rank; all
// model-parallel ranks; the pipeline's, and one with each neighbour (sending makes
// connections of its own); and the tied table's.
int CommunicatorCount(const Strategy& strategy, int pipeline_parallel_degree,
                      bool has_tied_table_elsewhere);

struct RankMemory {
  MemoryItems allocated;
  // `allocated` and what lies outside of it.
  MemoryItems total;
  // Of the fragmentation in `total`, what the allocator gives back to the device before
  // it fails: whether a rank runs out of memory depends on `total` less this.
  Bytes released_on_demand;
  // The peak is in the optimizer step and not in a backward pass.
  bool peak_in_optimizer_step = false;
  // Not less than the tensors at the peak, and simpler: all that is kept at the fullest
  // moment, with the largest need of any layer. What searches can add up layer by layer.
  Bytes tensor_bound;
  // Micro-batches the rank keeps of its first virtual stage in the backward pass that
  // needs most: 1F1B min(P - i, m), GPipe m, 1 without pipeline.
  int64_t in_flight_micro_batch_count = 0;
};

// Peak over the backward pass of each layer and the optimizer step.
//
// Exact for every schedule: interleaved devices go through the moments of
// planner/model/in_flight.h, since a heavy first chunk is fullest some passes after the
// first backward pass. O(V), allocates nothing up to 32 virtual stages.
//
//   stages   [virtual stage], place.virtual_stage_count of them
RankMemory MemoryOfRank(absl::Span<const StageMemory* const> stages, const RankPlace& place,
                        const RuntimeTraits& traits, const Coefficients& coefficients);

// The same from layers, for those in no hurry.
RankMemory MemoryOfRank(absl::Span<const LayerMemoryRun> runs, const RankPlace& place,
                        const RuntimeTraits& traits, const Coefficients& coefficients);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_RANK_MEMORY_H_
