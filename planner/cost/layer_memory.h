// Memory of one layer on one rank: what it holds all the time, keeps for its backward pass and
// needs while it runs.
//
// Model states are those of ZeRO (Rajbhandari et al., arXiv 1910.02054, section 3), activations
// those of activation_tensors.h. rank_memory.h adds layers up to the peak of a rank.
// docs/cost-model-memory.md has the formula and the source of every item.

#ifndef PARPLAN_PLANNER_COST_LAYER_MEMORY_H_
#define PARPLAN_PLANNER_COST_LAYER_MEMORY_H_

#include <cstdint>

#include "base/units.h"
#include "planner/cost/activation_tensors.h"
#include "planner/model/model_spec.h"
#include "planner/model/precision.h"
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
  // Parameters of linear maps whose operands the precision quantises: the part of the two counts
  // above in them, or of the two counts below if they are frozen.
  int64_t quantised_parameter_count = 0;
  int64_t quantised_expert_parameter_count = 0;
  // Parameters that are not trained, those of experts apart. They are not part of the first two
  // counts, which are then of the adapters.
  int64_t frozen_parameter_count = 0;
  int64_t frozen_expert_parameter_count = 0;
  // Parameters of the largest matrix, whose gradient exists on its own for a moment.
  int64_t largest_matrix_parameter_count = 0;
  // Parameters of the embedding's table on the same ranks if a head uses it.
  int64_t borrowed_parameter_count = 0;
  // Trained parameters of linear maps, of one expert if there are several.
  int64_t mapped_parameter_count = 0;
  // Activations of one sample.
  ActivationBytes activations;

  // Returns whether the layer has parameters that are not trained.
  bool is_frozen() const { return frozen_parameter_count + frozen_expert_parameter_count > 0; }
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
  // Held from the first forward to the last backward pass of a step, and not in the optimizer's
  // step: the whole parameters of a sharded table, 16-bit weights that are made for the passes
  // (without `RuntimeTraits::keep_16_bit_parameters`), or whole parameters of which ranks hold
  // shards between steps (`shards_parameters_between_steps`).
  Bytes gathered_all_time;
  // Kept from forward to backward, for each micro-batch in flight.
  Bytes kept;
  // True if `kept` is the input of a layer that recomputes all of itself.
  bool kept_are_checkpoints = false;
  // Held only while the layer's backward pass runs: recomputed activations, gradients of
  // activations and of the largest matrix.
  Bytes running;
  // Part of `kept` that is freed before the layer needs most.
  Bytes freed;
  // Kept beside `kept` from the first to the second part of a split backward pass, for each
  // micro-batch between them. 0 unless the runtime splits backward passes.
  Bytes weight_gradients;
  // Logits and loss, held while the layer runs.
  Bytes logits;
  // Whole parameters and gradients of a sharded layer, and quantised or 16-bit weights made for it
  // alone, held while it runs.
  Bytes gathered;
  // Gradients that a backward pass makes and frees (`frees_gradients_after_pass`), as far as they
  // take the place of `kept`; what exceeds it is among `gradients`. The allocator keeps their
  // blocks until it has no other.
  Bytes pass_gradients;
  // The largest of the logits and of the gradients of matrices. Larger tensors inside a layer, such
  // as the activations of a stage without a head, are not looked for.
  Bytes largest_tensor;
  // Held only during the optimizer's step: fp32 copies of 16-bit gradients.
  Bytes step;
  // Message in which gradients are exchanged, if it is a copy of them.
  Bytes bucket;
  // Held all the time, once for layers of the same shapes
  // (`RuntimeTraits::keeps_placeholder_gradients`).
  Bytes placeholders;
  // Message that this layer would send to the next stage; 0 without a pipeline. While layers run,
  // one message is arriving and one is leaving.
  Bytes message;

  // Returns the memory of the model's states, which are held all the time.
  Bytes states() const { return parameters + gradients + optimizer_states + master_parameters; }
  // Returns the memory held only while the layer runs, less the part of `kept` that is freed.
  Bytes transient() const { return running - freed + logits + gathered + message * 2; }
};

// Returns everything but `message`. `samples` is the micro-batch of one rank, and may be a
// fraction. Layers that are no transformer layers recompute nothing, whatever the strategy says.
// Data- and context-parallel ranks share sharded states, or groups of them
// (`Strategy::sharding_degree`); those of an expert are fewer by the expert-parallel degree.
// `quantised_copy_count` is that of a quantised tensor
// (`QuantisedCopyCount`).
LayerMemory MemoryOfLayer(const LayerFootprint& footprint, Precision precision, Optimizer optimizer,
                          const RuntimeTraits& traits, const Strategy& strategy, double samples,
                          int quantised_copy_count = Quantisation::kCopyCount);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_MEMORY_H_
