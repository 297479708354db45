#include "planner/cost/layer_memory.h"

#include <algorithm>
#include <optional>

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
                           feed_forward.copied() + experts;
  // Norms, biases, and other parameters of a given count beyond the matrices.
  const int64_t rest = std::max<int64_t>(layer.parameter_count - matrices,
                                         NormCount(layer) * hidden + PredictionNormElements(layer));
  footprint.parameter_count =
      attention + CeilDiv(feed_forward.dense, degree) + feed_forward.copied() + rest;
  const int64_t mapped = attention - CeilDiv(mixer.vectors.split, degree) - mixer.vectors.copied +
                         CeilDiv(feed_forward.dense, degree) + feed_forward.latent;
  footprint.mapped_parameter_count =
      mapped + CeilDiv(feed_forward.expert, strategy.expert_tensor_degree());
  if (is_quantised) footprint.quantised_parameter_count = mapped;
  footprint.largest_matrix_parameter_count =
      std::max({LargestMixerMatrix(layer, degree),
                CeilDiv(LargestFeedForwardMatrix(layer, traits, feed_forward.dense), degree),
                CeilDiv(LargestFeedForwardMatrix(layer, traits, feed_forward.expert),
                        strategy.expert_tensor_degree()),
                feed_forward.latent / 2, CeilDiv(PredictionMatrixElements(layer), degree)});
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
  const bool has_messages = level == ShardingLevel::kNone || !traits.frees_gradients_after_pass;
  if (mixed && traits.separate_gradient_buffer && has_messages) {
    states.gradients += element * gradient_part;
  }
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
void AddQuantisedWeights(int64_t own, int64_t replicas, Precision precision, int copy_count,
                         const RuntimeTraits& traits, ShardingLevel level, LayerMemory* memory) {
  const std::optional<Quantisation>& quantisation = TraitsOf(precision).quantisation;
  if (own == 0 || !quantisation.has_value()) return;
  const bool shards = level == ShardingLevel::kParameters && replicas > 1;
  const Bytes copies =
      Bytes::Ceil(static_cast<double>(own) * copy_count * quantisation->operand_bytes);
  const Bytes wide = Bytes::Of(BytesPerElement(precision) * own);
  const bool is_alone = HasQuantisedParameters(precision, traits);
  if (shards) {
    memory->gathered += is_alone ? copies - std::min(copies, wide) : copies;
    return;
  }
  memory->parameters += copies;
  if (is_alone && traits.keep_16_bit_parameters) memory->parameters -= wide;
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
    footprint.frozen_parameter_count = footprint.parameter_count;
    footprint.frozen_expert_parameter_count = footprint.expert_parameter_count;
    footprint.parameter_count =
        CeilDiv(AdapterElements(definition), strategy.tensor_parallel_degree);
    footprint.expert_parameter_count = 0;
    footprint.largest_matrix_parameter_count = 0;
    footprint.mapped_parameter_count = 0;
  }
  footprint.kind = definition.kind;
  footprint.activations = ActivationBytesOf(definition, precision, traits, strategy);
  return footprint;
}

LayerMemory MemoryOfLayer(const LayerFootprint& footprint, Precision precision, Optimizer optimizer,
                          const RuntimeTraits& traits, const Strategy& strategy, double samples,
                          int quantised_copy_count) {
  const int64_t replicas = strategy.replica_count();
  const int64_t shards = strategy.shard_count();
  const StateBytes dense = StatesOf(footprint.parameter_count, shards, precision, optimizer, traits,
                                    strategy.sharding_level);
  // Ranks that hold the same experts, and those that share their states.
  const int64_t expert_replicas = std::max(1, strategy.expert_replica_count());
  const int64_t expert_shards = std::max(1, strategy.expert_shard_count());
  const StateBytes experts = StatesOf(footprint.expert_parameter_count, expert_shards, precision,
                                      optimizer, traits, strategy.sharding_level);
  const int64_t count = footprint.parameter_count + footprint.expert_parameter_count;
  const int64_t element = BytesPerElement(precision);
  const bool is_table = !IsTransformer(footprint.kind);

  LayerMemory memory;
  const bool shards_parameters = strategy.sharding_level == ShardingLevel::kParameters;
  const int64_t frozen_shard = CeilDiv(footprint.frozen_parameter_count, shards) +
                               CeilDiv(footprint.frozen_expert_parameter_count, expert_shards);
  const int64_t frozen = shards_parameters ? frozen_shard
                                           : footprint.frozen_parameter_count +
                                                 footprint.frozen_expert_parameter_count;
  memory.parameters = Bytes::Of(dense.parameters + experts.parameters + element * frozen);
  memory.gradients = Bytes::Of(dense.gradients + experts.gradients);
  memory.optimizer_states = Bytes::Of(dense.optimizer_states + experts.optimizer_states);
  memory.master_parameters = Bytes::Of(dense.master_parameters + experts.master_parameters);
  memory.step = Bytes::Of(dense.step + experts.step);
  AddQuantisedWeights(footprint.quantised_parameter_count, shards, precision, quantised_copy_count,
                      traits, strategy.sharding_level, &memory);
  AddQuantisedWeights(footprint.quantised_expert_parameter_count, expert_shards, precision,
                      quantised_copy_count, traits, strategy.sharding_level, &memory);
  // Parameters that more than one rank holds.
  const int64_t shared_count = (replicas > 1 ? footprint.parameter_count : 0) +
                               (expert_replicas > 1 ? footprint.expert_parameter_count : 0);
  if (traits.flatten_gradient_buckets) {
    // It is as wide as the messages (`LayerTraffic::DataCollectives`).
    memory.bucket = Bytes::Of(shared_count * (TraitsOf(precision).has_master_weights()
                                                  ? int64_t{traits.gradient_message_bytes}
                                                  : element));
  }

  const Recomputation recomputation = is_table ? Recomputation() : strategy.recomputation();
  const RecomputeLevel level = recomputation.level;
  memory.kept = Bytes::Ceil(samples * footprint.activations.Kept(recomputation));
  memory.kept_are_checkpoints = level == RecomputeLevel::kFull;
  if (traits.frees_gradients_after_pass && TraitsOf(precision).has_master_weights()) {
    // The pass frees what the layer kept before it makes the gradients of the layers in front.
    const Bytes made = Bytes::Of(element * count);
    memory.pass_gradients = std::min(made, memory.kept);
    memory.gradients += made - memory.pass_gradients;
  }
  const ActivationBytes& activations = footprint.activations;
  // All modules together, although those behind attention are done before it is made again.
  const double again = activations.Kept(RecomputeLevel::kNone) - activations.Kept(recomputation);
  memory.running = Bytes::Ceil(samples * (again + activations.backward));
  memory.freed = Bytes::Ceil(samples * activations.freed);
  memory.weight_gradients = Bytes::Ceil(samples * activations.weight_gradients);
  if (memory.kept_are_checkpoints || level == RecomputeLevel::kModules) {
    // The freed part is among the recomputed tensors, or may be.
    memory.running -= memory.freed;
    memory.freed = Bytes();
  }
  memory.logits = Bytes::Ceil(samples * activations.logits);
  const int64_t gradient_element =
      TraitsOf(precision).has_master_weights() ? traits.gradient_bytes : 4;
  memory.largest_tensor =
      std::max(Bytes::Ceil(samples * activations.logits_tensor),
               Bytes::Of(gradient_element * footprint.largest_matrix_parameter_count));
  // Products that add to the buffer themselves need no gradient of their own; the
  // lookup of an embedding always makes one.
  const bool makes_gradient = footprint.kind == LayerKind::kEmbedding && !traits.reuses_activations;
  if (!traits.fused_gradient_accumulation || makes_gradient) {
    memory.running += Bytes::Of(element * footprint.largest_matrix_parameter_count);
  } else if (traits.keeps_placeholder_gradients) {
    memory.placeholders = Bytes::Of(element * footprint.mapped_parameter_count);
    if (footprint.kind == LayerKind::kHead) {
      memory.running += Bytes::Of(element * (footprint.largest_matrix_parameter_count +
                                             footprint.borrowed_parameter_count));
    }
  }
  // A head also uses the table of the embedding.
  const int64_t borrowed_count =
      traits.gathers_tables_late && replicas > 1 ? footprint.borrowed_parameter_count : 0;
  // Experts that one rank of each group has alone are never gathered or scattered.
  const int64_t whole_experts =
      expert_replicas > 1 && expert_shards == 1 ? footprint.expert_parameter_count : 0;
  const int64_t used_count = shared_count - whole_experts + borrowed_count;
  Bytes gradient;
  if (AtLeast(strategy.sharding_level, ShardingLevel::kGradients)) {
    // The whole gradient of the layer before it is scattered: as the backward pass writes it, or,
    // in line, as products add to it; that of the layer before beside it if it is on its way.
    const bool is_sum = traits.scatters_gradients_in_line || traits.scatters_beside_next_layer;
    gradient = Bytes::Of((is_sum ? gradient_element : element) * used_count) *
               (traits.scatters_beside_next_layer ? 2 : 1);
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
    // Experts that no other rank of the group has are whole all the time.
    const int64_t frozen_experts = expert_shards > 1 ? footprint.frozen_expert_parameter_count : 0;
    const Bytes whole =
        Bytes::Of(element * (used_count + footprint.frozen_parameter_count + frozen_experts));
    if (is_table && !traits.gathers_tables_late) {
      memory.gathered_all_time = whole;
    } else if (footprint.kind != LayerKind::kEmbedding || !traits.gathers_tables_late) {
      // An embedding's backward pass needs none.
      memory.gathered += traits.overlap_parameter_gather ? whole * 2 : whole;
    }
  } else if (TraitsOf(precision).has_master_weights() && !traits.keep_16_bit_parameters) {
    // 16-bit weights made for the pass. Those that ZeRO-1 and 2 gather stay until the last backward
    // pass of the step; only a rank that holds its 32-bit weights whole makes them again.
    const Bytes copies = Bytes::Of(element * count);
    const bool are_gathered =
        AtLeast(strategy.sharding_level, ShardingLevel::kOptimizer) && replicas > 1;
    if (level == RecomputeLevel::kFull && traits.recomputes_16_bit_parameters && !are_gathered) {
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
    memory.parameters = shard(footprint.parameter_count, shards) +
                        shard(footprint.expert_parameter_count, expert_shards) +
                        Bytes::Of(element * frozen_shard);
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

}  // namespace parplan
