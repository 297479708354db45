#include "planner/cost/rank_memory.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "planner/model/in_flight.h"
#include "planner/model/layer_matrices.h"
#include "planner/model/layer_precision.h"

namespace parplan {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool AtLeast(ShardingLevel level, ShardingLevel wanted) {
  return static_cast<int>(level) >= static_cast<int>(wanted);
}

// Returns the elements of the largest matrix of a part of `elements` if it is a feed-forward part.
// Gate and up projection are one matrix, but for modules of PyTorch.
int64_t LargestFeedForwardMatrix(const LayerDefinition& layer, const RuntimeTraits& traits,
                                 int64_t elements) {
  if (layer.feed_forward_kind != FeedForwardKind::kSwiglu) return elements / 2;
  return elements / 3 * (traits.measures_saved_tensors ? 1 : 2);
}

LayerFootprint TransformerFootprint(const LayerDefinition& layer, const RuntimeTraits& traits,
                                    bool is_quantised, const Strategy& strategy) {
  const int64_t degree = strategy.tensor_parallel_degree;
  LayerFootprint footprint;
  if (layer.kind == LayerKind::kOpaque) {
    footprint.parameter_count = OpaquePart(layer, strategy.tensor_parallel_degree).parameter_count;
    // Nothing is known of its matrices: one may be all.
    footprint.largest_matrix_parameter_count = footprint.parameter_count;
    return footprint;
  }
  const int64_t hidden = layer.hidden_size;
  const int64_t key_value_parts = KeyValueParts(layer, degree);
  const PartElements mixer = MixerElements(layer);
  const int64_t blocks = std::max(1, AttentionBlockCount(layer.kind));
  const int64_t attention =
      blocks * (CeilDiv(mixer.matrices.split / blocks, degree) +
                CeilDiv(mixer.matrices.of_key_value_heads / blocks, key_value_parts)) +
      mixer.matrices.copied + CeilDiv(mixer.vectors.split, degree) + mixer.vectors.copied +
      CeilDiv(PredictionMatrixElements(layer), degree);
  const FeedForwardElements feed_forward = FeedForwardElementsOf(layer);
  const int64_t experts = layer.expert_count * feed_forward.expert;
  const int64_t matrices = mixer.Sum() + PredictionMatrixElements(layer) + feed_forward.dense +
                           feed_forward.router + experts;
  // Norms, biases, and other parameters of a given count beyond the matrices.
  const int64_t rest = std::max<int64_t>(layer.parameter_count - matrices,
                                         NormCount(layer) * hidden + PredictionNormElements(layer));
  footprint.parameter_count =
      attention + CeilDiv(feed_forward.dense, degree) + feed_forward.router + rest;
  if (is_quantised) {
    footprint.quantised_parameter_count = attention - CeilDiv(mixer.vectors.split, degree) -
                                          mixer.vectors.copied +
                                          CeilDiv(feed_forward.dense, degree);
  }
  footprint.largest_matrix_parameter_count =
      std::max({LargestMixerMatrix(layer, degree),
                CeilDiv(LargestFeedForwardMatrix(layer, traits, feed_forward.dense), degree),
                CeilDiv(LargestFeedForwardMatrix(layer, traits, feed_forward.expert),
                        strategy.expert_tensor_degree()),
                CeilDiv(PredictionMatrixElements(layer), degree)});
  if (layer.has_experts()) {
    footprint.expert_parameter_count =
        CeilDiv(layer.expert_count, strategy.expert_parallel_degree) *
        CeilDiv(feed_forward.expert, strategy.expert_tensor_degree());
    if (is_quantised) footprint.quantised_expert_parameter_count = footprint.expert_parameter_count;
  }
  return footprint;
}

// Bytes of the states of some parameters.
struct StateBytes {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer_states = 0;
  int64_t master_parameters = 0;
  int64_t step = 0;
};

StateBytes StatesOf(int64_t count, int64_t shard_count, Precision precision, Optimizer optimizer,
                    const RuntimeTraits& traits, ShardingLevel level) {
  const int64_t element = BytesPerElement(precision);
  const bool mixed = TraitsOf(precision).has_master_weights();
  const auto part = [count, shard_count, level](ShardingLevel from) {
    return AtLeast(level, from) ? CeilDiv(count, shard_count) : count;
  };
  const int64_t optimizer_part = part(ShardingLevel::kOptimizer);
  const int64_t gradient_part = part(ShardingLevel::kGradients);
  const int64_t gradient_bytes = mixed ? traits.gradient_bytes : 4;
  StateBytes states;
  if (!mixed || traits.keep_16_bit_parameters) {
    states.parameters = element * part(ShardingLevel::kParameters);
  }
  states.gradients = gradient_bytes * gradient_part;
  if (mixed && traits.separate_gradient_buffer) states.gradients += element * gradient_part;
  states.optimizer_states =
      (optimizer == Optimizer::kAdam ? 2 * traits.moment_bytes : 0) * optimizer_part;
  if (mixed) states.master_parameters = 4 * optimizer_part;
  if (mixed && gradient_bytes == 2 && traits.widens_gradients_in_step) {
    states.step = 4 * optimizer_part;
  }
  return states;
}

// Adds the quantised copies of the weights of linear maps, `own` on each of `replicas` ranks that
// have the same. Ranks that shard parameters make the copies of a layer while it runs. Without
// 16-bit weights the copies take their place.
void AddQuantisedWeights(int64_t own, int64_t replicas, Precision precision,
                         const RuntimeTraits& traits, ShardingLevel level, LayerMemory* memory) {
  const std::optional<Quantisation>& quantisation = TraitsOf(precision).quantisation;
  if (own == 0 || !quantisation.has_value()) return;
  const bool shards = level == ShardingLevel::kParameters && replicas > 1;
  const Bytes copies = Bytes::Ceil(static_cast<double>(own) * Quantisation::kCopyCount *
                                   quantisation->operand_bytes);
  const Bytes wide = Bytes::Of(BytesPerElement(precision) * own);
  if (shards) {
    memory->gathered += traits.quantised_parameters ? copies - std::min(copies, wide) : copies;
    return;
  }
  memory->parameters += copies;
  if (traits.quantised_parameters && traits.keep_16_bit_parameters) memory->parameters -= wide;
}

// Number of virtual stages up to which nothing is allocated. Not measured: more than usual plans
// have.
constexpr size_t kFewStages = 32;

// The micro-batches that a rank keeps, and the backward pass that needs most.
struct BackwardPeak {
  // [virtual stage]
  absl::InlinedVector<int64_t, kFewStages> in_flight;
  int stage_index = 0;
  Bytes most_kept;
};

// Finds the backward pass that needs most. `outputs[i]` is the memory that stage i keeps in
// addition to its layers' tensors.
BackwardPeak PeakOfBackward(absl::Span<const StageMemory* const> stages,
                            absl::Span<const Bytes> outputs, const RankPlace& place) {
  BackwardPeak peak;
  peak.in_flight.resize(stages.size());
  if (TraitsOf(place.schedule).warm_up == WarmUpLaw::kAllForwardPasses || stages.size() == 1) {
    peak.in_flight[0] = InFlightMicroBatchCount(place.schedule, place.pipeline_parallel_degree,
                                                place.stage_index, place.micro_batch_count);
    peak.most_kept = (stages[0]->kept.Sum() + outputs[0]) * peak.in_flight[0];
    return peak;
  }
  absl::InlinedVector<Bytes, kFewStages> kept;
  absl::InlinedVector<Bytes, kFewStages> extra;
  for (size_t i = 0; i < stages.size(); ++i) {
    kept.push_back(stages[i]->kept.Sum() + outputs[i]);
    extra.push_back(stages[i]->peak.extra);
  }
  const InFlightMoment moment =
      WorstMoment({.pipeline_parallel_degree = place.pipeline_parallel_degree,
                   .virtual_stage_count = place.virtual_stage_count,
                   .device_index = place.stage_index,
                   .micro_batch_count = place.micro_batch_count,
                   .micro_batch_group_size = place.micro_batch_group_size},
                  kept, extra, absl::MakeSpan(peak.in_flight));
  peak.stage_index = moment.chunk_index;
  peak.most_kept = moment.most_kept;
  return peak;
}

// Returns whether the first backward pass of a step needs most although gradients are only made in
// it; if not, `peak`, which is that of all passes, becomes that of those after it. Devices with
// several virtual stages count as if gradients were there all the time.
bool IsFirstPassFullest(absl::Span<const StageMemory* const> stages,
                        absl::Span<const Bytes> outputs, const RankPlace& place,
                        const RuntimeTraits& traits, BackwardPeak& peak) {
  if (!traits.makes_gradients_in_step || stages.size() > 1) return false;
  if (place.micro_batch_count == 1) return true;
  RankPlace later = place;
  --later.micro_batch_count;
  const BackwardPeak after = PeakOfBackward(stages, outputs, later);
  const StageMemory& stage = *stages[0];
  if (peak.most_kept + stage.first_peak.extra >=
      after.most_kept + stage.peak.extra + stage.gradients) {
    return true;
  }
  peak = after;
  return false;
}

// Returns the memory of messages that wait for their turn. In groups of more micro-batches than the
// pipeline has devices, the first device receives activations, and the last one gradients, before
// it needs them: so many as the group is larger, at most, beside the one that arrives.
Bytes WaitingMessages(absl::Span<const StageMemory* const> stages, const RankPlace& place) {
  const int last = place.pipeline_parallel_degree - 1;
  const int64_t count = place.micro_batch_group_size - place.pipeline_parallel_degree;
  if (count <= 0 || (place.stage_index != 0 && place.stage_index != last)) return Bytes();
  Bytes largest;
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool sends = place.stage_index != last || i + 1 < stages.size();
    if (sends) largest = std::max(largest, stages[i]->message);
  }
  return largest * count;
}

}  // namespace

LayerFootprint FootprintOf(const LayerDefinition& definition, Precision precision,
                           const RuntimeTraits& traits, const Strategy& strategy,
                           bool copies_tied_table) {
  LayerFootprint footprint;
  if (IsTransformer(definition.kind)) {
    footprint = TransformerFootprint(definition, traits,
                                     QuantisationOf(definition, precision).has_value(), strategy);
    if (copies_tied_table) {
      // A layer that predicts further tokens looks them up in a table of its own stage.
      footprint.parameter_count += CeilDiv(PaddedVocabularySize(definition.vocabulary_size, traits,
                                                                strategy.tensor_parallel_degree),
                                           strategy.tensor_parallel_degree) *
                                   definition.hidden_size;
    }
  } else {
    const int64_t hidden = definition.hidden_size;
    const int64_t table = hidden * definition.vocabulary_size;
    const bool is_patch = definition.kind == LayerKind::kPatchEmbedding;
    const int64_t table_part =
        is_patch ? table
                 : CeilDiv(PaddedVocabularySize(definition.vocabulary_size, traits,
                                                strategy.tensor_parallel_degree),
                           strategy.tensor_parallel_degree) *
                       hidden;
    const bool has_own_table = !(definition.kind == LayerKind::kHead && definition.tied_embedding);
    const int64_t rest =
        std::max<int64_t>(definition.parameter_count - (has_own_table ? table : 0), 0);
    footprint.parameter_count = rest;
    if (has_own_table || copies_tied_table) {
      footprint.parameter_count += table_part;
      footprint.largest_matrix_parameter_count = table_part;
    } else {
      footprint.borrowed_parameter_count = table_part;
    }
  }
  if (definition.frozen) {
    footprint.frozen_parameter_count = footprint.parameter_count + footprint.expert_parameter_count;
    footprint.quantised_parameter_count += footprint.quantised_expert_parameter_count;
    footprint.quantised_expert_parameter_count = 0;
    footprint.parameter_count =
        CeilDiv(AdapterElements(definition), strategy.tensor_parallel_degree);
    footprint.expert_parameter_count = 0;
    footprint.largest_matrix_parameter_count = 0;
  }
  footprint.kind = definition.kind;
  footprint.activations = ActivationBytesOf(definition, precision, traits, strategy);
  return footprint;
}

LayerMemory MemoryOfLayer(const LayerFootprint& footprint, Precision precision, Optimizer optimizer,
                          const RuntimeTraits& traits, const Strategy& strategy, double samples) {
  const int64_t replicas =
      int64_t{strategy.data_parallel_degree} * strategy.context_parallel_degree;
  const StateBytes dense = StatesOf(footprint.parameter_count, replicas, precision, optimizer,
                                    traits, strategy.sharding_level);
  // Ranks that hold the same experts.
  const int64_t expert_replicas = std::max(1, strategy.expert_replica_count());
  const StateBytes experts = StatesOf(footprint.expert_parameter_count, expert_replicas, precision,
                                      optimizer, traits, strategy.sharding_level);
  const int64_t count = footprint.parameter_count + footprint.expert_parameter_count;
  const int64_t element = BytesPerElement(precision);
  const bool is_table = !IsTransformer(footprint.kind);

  LayerMemory memory;
  const bool shards_parameters = strategy.sharding_level == ShardingLevel::kParameters;
  const int64_t frozen = shards_parameters ? CeilDiv(footprint.frozen_parameter_count, replicas)
                                           : footprint.frozen_parameter_count;
  memory.parameters = Bytes::Of(dense.parameters + experts.parameters + element * frozen);
  memory.gradients = Bytes::Of(dense.gradients + experts.gradients);
  memory.optimizer_states = Bytes::Of(dense.optimizer_states + experts.optimizer_states);
  memory.master_parameters = Bytes::Of(dense.master_parameters + experts.master_parameters);
  memory.step = Bytes::Of(dense.step + experts.step);
  AddQuantisedWeights(footprint.quantised_parameter_count, replicas, precision, traits,
                      strategy.sharding_level, &memory);
  AddQuantisedWeights(footprint.quantised_expert_parameter_count, expert_replicas, precision,
                      traits, strategy.sharding_level, &memory);
  // Parameters that more than one rank holds.
  const int64_t shared_count = (replicas > 1 ? footprint.parameter_count : 0) +
                               (expert_replicas > 1 ? footprint.expert_parameter_count : 0);
  if (traits.flatten_gradient_buckets) {
    memory.bucket = Bytes::Of(shared_count * traits.gradient_message_bytes);
  }

  const Recomputation recomputation = is_table ? Recomputation() : strategy.recomputation();
  const RecomputeLevel level = recomputation.level;
  memory.kept = Bytes::Ceil(samples * footprint.activations.Kept(recomputation));
  memory.kept_are_checkpoints = level == RecomputeLevel::kFull;
  const ActivationBytes& activations = footprint.activations;
  // All modules together, although those behind attention are done before it is made again.
  const double again = activations.Kept(RecomputeLevel::kNone) - activations.Kept(recomputation);
  memory.running = Bytes::Ceil(samples * (again + activations.backward));
  memory.freed = Bytes::Ceil(samples * activations.freed);
  if (memory.kept_are_checkpoints || level == RecomputeLevel::kModules) {
    // The freed part is among the recomputed tensors, or may be.
    memory.running -= memory.freed;
    memory.freed = Bytes();
  }
  memory.logits = Bytes::Ceil(samples * activations.logits);
  // Products that add to the buffer themselves need no gradient of their own; the
  // lookup of an embedding always makes one.
  const bool makes_gradient = footprint.kind == LayerKind::kEmbedding && !traits.reuses_activations;
  if (!traits.fused_gradient_accumulation || makes_gradient) {
    memory.running += Bytes::Of(element * footprint.largest_matrix_parameter_count);
  }
  // A head also uses the table of the embedding.
  const int64_t borrowed_count =
      traits.gathers_tables_late && replicas > 1 ? footprint.borrowed_parameter_count : 0;
  const int64_t used_count = shared_count + borrowed_count;
  Bytes gradient;
  if (AtLeast(strategy.sharding_level, ShardingLevel::kGradients)) {
    // The whole gradient of the layer before it is scattered.
    gradient = Bytes::Of(element * used_count);
  }
  // The gradient follows recomputation, which may need more.
  const Bytes recomputing =
      Bytes::Ceil(samples * (again + activations.WorkingToRecompute(recomputation)));
  if (recomputing > memory.running - memory.freed + gradient) {
    memory.running = recomputing;
    memory.freed = Bytes();
  } else {
    memory.gathered += gradient;
  }
  if (strategy.sharding_level == ShardingLevel::kParameters && replicas > 1) {
    const Bytes whole = Bytes::Of(element * (used_count + footprint.frozen_parameter_count));
    if (is_table && !traits.gathers_tables_late) {
      memory.gathered_all_time = whole;
    } else if (footprint.kind != LayerKind::kEmbedding || !traits.gathers_tables_late) {
      // An embedding's backward pass needs none.
      memory.gathered += traits.overlap_parameter_gather ? whole * 2 : whole;
    }
  } else if (TraitsOf(precision).has_master_weights() && !traits.keep_16_bit_parameters) {
    // 16-bit weights made for the pass.
    const Bytes copies = Bytes::Of(element * count);
    if (level == RecomputeLevel::kFull && traits.recomputes_16_bit_parameters) {
      memory.gathered += copies;
    } else {
      memory.gathered_all_time = copies;
    }
  } else if (traits.shards_parameters_between_steps &&
             AtLeast(strategy.sharding_level, ShardingLevel::kOptimizer) && replicas > 1) {
    const auto shard = [element](int64_t own, int64_t ranks) {
      return Bytes::Of(element * CeilDiv(own, ranks));
    };
    memory.gathered_all_time = memory.parameters;
    memory.parameters = shard(footprint.parameter_count, replicas) +
                        shard(footprint.expert_parameter_count, expert_replicas);
  }
  if (traits.gathers_logits) {
    // The backward pass of a loss function of the user is over before the head gathers parameters
    // and makes gradients, and frees as much as the gradient takes that the head gets.
    if (memory.logits >= memory.running + memory.gathered) {
      memory.running = Bytes();
      memory.gathered = Bytes();
    } else {
      memory.logits = Bytes();
    }
  }
  return memory;
}

void StageMemory::Add(const LayerMemory& layer, int64_t layer_count) {
  parameters += layer.parameters * layer_count;
  gradients += layer.gradients * layer_count;
  optimizer_states += layer.optimizer_states * layer_count;
  master_parameters += layer.master_parameters * layer_count;
  gathered_all_time += layer.gathered_all_time * layer_count;
  step += layer.step * layer_count;
  bucket += layer.bucket * layer_count;

  const Bytes kept_by_run = layer.kept * layer_count;
  const Bytes gradients_by_run = layer.gradients * layer_count;
  (layer.kept_are_checkpoints ? kept.checkpoints : kept.activations) += kept_by_run;
  for (Peak* const one : {&peak, &first_peak}) {
    (layer.kept_are_checkpoints ? one->freed.checkpoints : one->freed.activations) += kept_by_run;
    one->extra -= kept_by_run;
  }
  first_peak.extra += gradients_by_run;
  first_peak.gradients += gradients_by_run;
  const Bytes needed = layer.transient();
  most_transient = std::max(most_transient, needed);
  const auto raise = [&](Bytes extra, int64_t later_count, Peak& to) {
    if (extra < to.extra) return;
    to = {.extra = extra,
          .freed = {.activations = layer.freed},
          .running = layer.running + layer.message * 2,
          .logits = layer.logits,
          .gathered = layer.gathered,
          .message = layer.message,
          .gradients = layer.gradients * later_count};
    (layer.kept_are_checkpoints ? to.freed.checkpoints : to.freed.activations) +=
        layer.kept * later_count;
  };
  raise(needed, 0, peak);
  peak.gradients = Bytes();
  // If a layer makes more gradients than it frees, the first one needs most.
  const int64_t later_count = layer.gradients > layer.kept ? layer_count - 1 : 0;
  raise(needed + (layer.gradients - layer.kept) * later_count, later_count, first_peak);
  message = layer.message;
}

int CommunicatorCount(const Strategy& strategy, int pipeline_parallel_degree,
                      bool has_tied_table_elsewhere) {
  const bool tensor = strategy.tensor_parallel_degree > 1;
  const bool data = strategy.data_parallel_degree > 1;
  const bool context = strategy.context_parallel_degree > 1;
  const bool pipeline = pipeline_parallel_degree > 1;
  int count = 0;
  if (strategy.rank_count() > 1 || pipeline) ++count;
  if (tensor) ++count;
  if (data) ++count;
  if (context) count += data ? 2 : 1;  // their own, and together with the data's
  if (strategy.expert_parallel_degree > 1) ++count;
  // That of an expert's ranks, and that of the ranks with the same experts.
  if (strategy.expert_tensor_parallel_degree > 1) ++count;
  if (strategy.expert_tensor_parallel_degree > 0) ++count;
  if (pipeline) count += 3;  // its own, and one with each neighbour
  if (pipeline || tensor) ++count;
  if (has_tied_table_elsewhere && pipeline) ++count;
  return count;
}

RankMemory MemoryOfRank(absl::Span<const StageMemory* const> stages, const RankPlace& place,
                        const RuntimeTraits& traits, const Coefficients& coefficients) {
  using enum MemoryItemKind;
  const bool is_last_stage = place.stage_index == place.pipeline_parallel_degree - 1;
  absl::InlinedVector<Bytes, kFewStages> outputs(stages.size());
  if (place.pipeline_parallel_degree > 1 && traits.keep_stage_outputs) {
    for (size_t i = 0; i < stages.size(); ++i) {
      if (!is_last_stage || i + 1 < stages.size()) outputs[i] = stages[i]->message;
    }
  }
  BackwardPeak peak = PeakOfBackward(stages, outputs, place);
  const Bytes most_kept = peak.most_kept;
  const bool is_first_pass = IsFirstPassFullest(stages, outputs, place, traits, peak);

  MemoryItems states;
  Bytes step;
  Bytes bucket;
  Bytes most_transient;
  Bytes gathered_all_time;
  MemoryItems backward;
  for (size_t i = 0; i < stages.size(); ++i) {
    const StageMemory& stage = *stages[i];
    states[kParameters] += stage.parameters;
    states[kGradients] += stage.gradients;
    states[kOptimizerStates] += stage.optimizer_states;
    states[kMasterParameters] += stage.master_parameters;
    step += stage.step;
    bucket += stage.bucket;
    most_transient = std::max(most_transient, stage.most_transient);
    gathered_all_time += stage.gathered_all_time;
    backward[kActivations] += stage.kept.activations * peak.in_flight[i];
    backward[kCheckpoints] += (stage.kept.checkpoints + outputs[i]) * peak.in_flight[i];
  }
  const StageMemory& fullest = *stages[peak.stage_index];
  const StageMemory::Peak& running = is_first_pass ? fullest.first_peak : fullest.peak;
  backward[kActivations] -= running.freed.activations;
  backward[kCheckpoints] -= running.freed.checkpoints;
  backward[kTransient] += running.running;
  if (place.pipeline_parallel_degree > 1 && stages.size() == 1 && traits.holds_messages_sent &&
      (is_last_stage || place.stage_index == 0)) {
    // The first and the last stage hold one message instead of two.
    backward[kTransient] -= running.message;
  }
  const Bytes waiting = WaitingMessages(stages, place);
  backward[kTransient] += waiting;
  backward[kLogits] += running.logits;
  backward[kGatheredParameters] += gathered_all_time + running.gathered;
  const Bytes backward_bound = gathered_all_time + most_kept + most_transient + waiting;

  RankMemory memory;
  const Bytes step_peak = step + std::min(bucket, traits.gradient_bucket);
  // Gradients that the first pass has not made yet.
  const Bytes missing = is_first_pass ? states[kGradients] - running.gradients : Bytes();
  const Bytes backward_peak = backward.Total() - missing;
  memory.peak_in_optimizer_step = step_peak > backward_peak;
  memory.allocated = states;
  if (memory.peak_in_optimizer_step) {
    memory.allocated[kTransient] = step_peak;
  } else {
    for (int i = 0; i < kMemoryItemKindCount; ++i) memory.allocated.size[i] += backward.size[i];
    memory.allocated[kGradients] -= missing;
  }
  const Bytes tensors = memory.allocated.Total();
  memory.tensor_bound = states.Total() + std::max(backward_bound, step_peak);
  memory.in_flight_micro_batch_count = peak.in_flight[0];
  memory.allocated[kWorkspace] = Bytes::Ceil(coefficients[Coefficient::kWorkspaceMemory]);

  memory.total = memory.allocated;
  memory.total[kContext] = Bytes::Ceil(coefficients[Coefficient::kContextMemory]);
  memory.total[kCommunicators] =
      Bytes::Ceil(coefficients[Coefficient::kCommunicatorMemory] * place.communicator_count);
  // The blocks of the other moment stay in the allocator's cache: those of the optimizer
  // step are flat copies of gradients, far larger than the activations' segments, which
  // are not joined.
  if (!traits.expandable_segments) {
    memory.released_on_demand = std::max(Bytes(), std::min(step_peak, backward_peak));
  }
  memory.total[kFragmentation] =
      Bytes::Ceil(coefficients[Coefficient::kFragmentation] * tensors.as_double()) +
      memory.released_on_demand;
  return memory;
}

RankMemory MemoryOfRank(absl::Span<const LayerMemoryRun> runs, const RankPlace& place,
                        const RuntimeTraits& traits, const Coefficients& coefficients) {
  std::vector<StageMemory> stages(place.virtual_stage_count);
  std::vector<const StageMemory*> pointers;
  for (const LayerMemoryRun& run : runs) {
    stages[run.virtual_stage_index].Add(run.layer, run.layer_count);
  }
  for (const StageMemory& stage : stages) pointers.push_back(&stage);
  return MemoryOfRank(pointers, place, traits, coefficients);
}

}  // namespace parplan
