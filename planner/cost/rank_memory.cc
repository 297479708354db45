#include "planner/cost/rank_memory.h"

#include <algorithm>
#include <limits>

namespace parplan {
namespace {

using enum MemoryItemKind;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool AtLeast(ShardingLevel level, ShardingLevel wanted) {
  return static_cast<int>(level) >= static_cast<int>(wanted);
}

// Elements of one expert's matrices, or of a feed-forward part, and of its largest one.
struct Matrices {
  int64_t elements = 0;
  int64_t largest = 0;
};

Matrices FeedForwardMatrices(const LayerDefinition& layer, int64_t width) {
  const int64_t matrix = int64_t{layer.hidden_size} * width;
  if (layer.feed_forward_kind == FeedForwardKind::kSwiglu) {
    // Gate and up projection are one matrix.
    return {3 * matrix, 2 * matrix};
  }
  return {2 * matrix, matrix};
}

LayerFootprint TransformerFootprint(const LayerDefinition& layer, const Strategy& strategy) {
  const int64_t degree = strategy.tensor_parallel_degree;
  const int64_t hidden = layer.hidden_size;
  const int64_t query = int64_t{layer.attention_head_count} * layer.head_size;
  // No rank has less than one key-value head.
  const int64_t key_value_ways = std::min<int64_t>(degree, layer.key_value_head_count);
  const int64_t key_value = int64_t{layer.key_value_head_count} * layer.head_size;
  const int64_t attention_count = layer.kind == LayerKind::kCrossDecoder ? 2 : 1;
  const int64_t attention_whole = attention_count * hidden * (2 * query + 2 * key_value);
  const int64_t attention = attention_count * (CeilDiv(2 * hidden * query, degree) +
                                               CeilDiv(2 * hidden * key_value, key_value_ways));
  const int64_t largest_attention =
      CeilDiv(hidden * query, degree) + CeilDiv(2 * hidden * key_value, key_value_ways);

  LayerFootprint footprint;
  footprint.kind = layer.kind;
  const int64_t norms = (attention_count + 1) * hidden;
  if (layer.expert_count == 0) {
    const Matrices feed_forward = FeedForwardMatrices(layer, layer.feed_forward_size);
    // Biases and whatever else a given count has beyond the matrices.
    const int64_t rest =
        std::max<int64_t>(layer.parameter_count - attention_whole - feed_forward.elements, norms);
    footprint.parameter_count = attention + CeilDiv(feed_forward.elements, degree) + rest;
    footprint.largest_matrix_parameter_count =
        std::max(largest_attention, CeilDiv(feed_forward.largest, degree));
    return footprint;
  }
  const Matrices expert = FeedForwardMatrices(layer, layer.expert_feed_forward_size);
  const int64_t router = hidden * layer.expert_count;
  footprint.parameter_count = attention + norms + router;
  footprint.largest_matrix_parameter_count =
      std::max(largest_attention, CeilDiv(expert.largest, degree));
  if (layer.shared_expert_feed_forward_size > 0) {
    footprint.parameter_count +=
        CeilDiv(FeedForwardMatrices(layer, layer.shared_expert_feed_forward_size).elements, degree);
  }
  footprint.expert_parameter_count = CeilDiv(layer.expert_count, strategy.expert_parallel_degree) *
                                     CeilDiv(expert.elements, degree);
  return footprint;
}

// Bytes `count` parameters take while they are held.
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
  const bool mixed = precision != Precision::kFp32;
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
  states.optimizer_states = (optimizer == Optimizer::kAdam ? 8 : 0) * optimizer_part;
  if (mixed) states.master_parameters = 4 * optimizer_part;
  if (mixed && gradient_bytes == 2 && traits.widens_gradients_in_step) {
    states.step = 4 * optimizer_part;
  }
  return states;
}

// What one virtual stage keeps of a micro-batch.
struct KeptBytes {
  Bytes activations;
  Bytes checkpoints;
  Bytes Sum() const { return activations + checkpoints; }
};

// The moment of the backward pass that needs most.
struct Moment {
  Bytes extra = Bytes::Of(std::numeric_limits<int64_t>::min());
  KeptBytes freed;
  Bytes running;
  Bytes logits;
  Bytes gathered;
};

}  // namespace

LayerFootprint FootprintOf(const LayerDefinition& definition, Precision precision,
                           const RuntimeTraits& traits, const Strategy& strategy,
                           bool copies_tied_table) {
  LayerFootprint footprint;
  if (IsTransformer(definition.kind)) {
    footprint = TransformerFootprint(definition, strategy);
  } else {
    const int64_t hidden = definition.hidden_size;
    const int64_t table = hidden * definition.vocabulary_size;
    const bool is_patch = definition.kind == LayerKind::kPatchEmbedding;
    const int64_t table_part = is_patch ? table
                                        : PaddedVocabularySize(definition.vocabulary_size, traits,
                                                               strategy.tensor_parallel_degree) /
                                              strategy.tensor_parallel_degree * hidden;
    const bool has_own_table = !(definition.kind == LayerKind::kHead && definition.tied_embedding);
    const int64_t rest =
        std::max<int64_t>(definition.parameter_count - (has_own_table ? table : 0), 0);
    footprint.parameter_count = rest;
    if (has_own_table || copies_tied_table) {
      footprint.parameter_count += table_part;
      footprint.largest_matrix_parameter_count = table_part;
    }
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
  const StateBytes experts =
      StatesOf(footprint.expert_parameter_count,
               std::max<int64_t>(1, replicas / strategy.expert_parallel_degree), precision,
               optimizer, traits, strategy.sharding_level);
  const int64_t count = footprint.parameter_count + footprint.expert_parameter_count;
  const int64_t element = BytesPerElement(precision);
  const bool is_table = !IsTransformer(footprint.kind);

  LayerMemory memory;
  memory.parameters = Bytes::Of(dense.parameters + experts.parameters);
  memory.gradients = Bytes::Of(dense.gradients + experts.gradients);
  memory.optimizer_states = Bytes::Of(dense.optimizer_states + experts.optimizer_states);
  memory.master_parameters = Bytes::Of(dense.master_parameters + experts.master_parameters);
  memory.step = Bytes::Of(dense.step + experts.step);
  if (traits.flatten_gradient_buckets && replicas > 1) {
    memory.bucket = Bytes::Of(count * traits.gradient_message_bytes);
  }

  const RecomputeLevel level = is_table ? RecomputeLevel::kNone : strategy.recompute_level;
  memory.kept = Bytes::Ceil(samples * footprint.activations.Kept(level));
  memory.kept_are_checkpoints = level == RecomputeLevel::kFull;
  const Bytes running = Bytes::Ceil(samples * footprint.activations.Running(level));
  (footprint.kind == LayerKind::kHead ? memory.logits : memory.running) = running;
  // Products that add to the buffer themselves need no gradient of their own; the
  // lookup of an embedding always makes one.
  if (!traits.fused_gradient_accumulation || footprint.kind == LayerKind::kEmbedding) {
    memory.running += Bytes::Of(element * footprint.largest_matrix_parameter_count);
  }
  if (AtLeast(strategy.sharding_level, ShardingLevel::kGradients) && replicas > 1) {
    // The whole gradient of the layer before it is scattered.
    memory.gathered += Bytes::Of(element * count);
  }
  if (strategy.sharding_level == ShardingLevel::kParameters && replicas > 1) {
    const Bytes whole = Bytes::Of(element * count);
    if (is_table) {
      memory.gathered_all_time = whole;
    } else {
      memory.gathered += traits.overlap_parameter_gather ? whole * 2 : whole;
    }
  } else if (precision != Precision::kFp32 && !traits.keep_16_bit_parameters) {
    // Cast for the pass.
    memory.gathered_all_time = Bytes::Of(element * count);
  }
  return memory;
}

int64_t InFlightPassCount(const RankPlace& place, int virtual_stage_index) {
  const int64_t stages = place.pipeline_parallel_degree;
  const int64_t virtual_stages = place.virtual_stage_count;
  const int64_t micro_batches = place.micro_batch_count;
  if (place.schedule != Schedule::kInterleaved || virtual_stages == 1 || stages == 1) {
    const Schedule schedule =
        place.schedule == Schedule::kGpipe ? Schedule::kGpipe : Schedule::kOneForwardOneBackward;
    return InFlightMicroBatchCount(schedule, place.pipeline_parallel_degree, place.stage_index,
                                   micro_batches);
  }
  const int64_t passes =
      std::min(2 * (stages - place.stage_index - 1) + (virtual_stages - 1) * stages + 1,
               micro_batches * virtual_stages);
  // A round is `group` micro-batches through one virtual stage after the other.
  const int64_t group = std::min(stages, micro_batches);
  const int64_t whole_rounds = passes / (group * virtual_stages);
  const int64_t rest = passes % (group * virtual_stages) - group * virtual_stage_index;
  return whole_rounds * group + std::clamp<int64_t>(rest, 0, group);
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
  if (pipeline) count += 3;  // its own, and one with each neighbour
  if (pipeline || tensor) ++count;
  if (has_tied_table_elsewhere && pipeline) ++count;
  return count;
}

RankMemory MemoryOfRank(absl::Span<const LayerMemoryRun> runs, const RankPlace& place,
                        const RuntimeTraits& traits, const Coefficients& coefficients) {
  MemoryItems states;
  Bytes step;
  Bytes bucket;
  MemoryItems backward;
  const int last_virtual_stage = place.virtual_stage_count - 1;
  const bool has_pipeline = place.pipeline_parallel_degree > 1;

  // What all micro-batches in flight keep.
  for (const LayerMemoryRun& run : runs) {
    const LayerMemory& layer = run.layer;
    const int64_t count = run.layer_count;
    states[kParameters] += layer.parameters * count;
    states[kGradients] += layer.gradients * count;
    states[kOptimizerStates] += layer.optimizer_states * count;
    states[kMasterParameters] += layer.master_parameters * count;
    step += layer.step * count;
    bucket += layer.bucket * count;
    backward[kGatheredParameters] += layer.gathered_all_time * count;
    backward[layer.kept_are_checkpoints ? kCheckpoints : kActivations] +=
        layer.kept * (count * InFlightPassCount(place, run.virtual_stage_index));
  }

  // The layer whose backward pass needs most, from the last one on: those behind it have
  // freed what they kept of this micro-batch.
  Moment peak;
  KeptBytes freed;
  const auto consider = [&peak](const LayerMemory& layer, const KeptBytes& freed) {
    const Bytes extra = layer.running + layer.logits + layer.gathered - freed.Sum();
    if (extra <= peak.extra) return;
    peak = {extra, freed, layer.running, layer.logits, layer.gathered};
  };
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->virtual_stage_index != last_virtual_stage) continue;
    consider(run->layer, freed);
    Bytes& kind = run->layer.kept_are_checkpoints ? freed.checkpoints : freed.activations;
    kind += run->layer.kept * run->layer_count;
  }
  if (peak.extra > Bytes::Of(std::numeric_limits<int64_t>::min())) {
    backward[kActivations] -= peak.freed.activations;
    backward[kCheckpoints] -= peak.freed.checkpoints;
    backward[kTransient] += peak.running;
    backward[kLogits] += peak.logits;
    backward[kGatheredParameters] += peak.gathered;
  }
  if (has_pipeline) {
    // A message coming and one going.
    backward[kTransient] += place.message * 2;
    const bool is_last_stage = place.stage_index == place.pipeline_parallel_degree - 1;
    for (int i = 0; traits.keep_stage_outputs && i < place.virtual_stage_count; ++i) {
      if (is_last_stage && i == last_virtual_stage) break;
      backward[kCheckpoints] += place.message * InFlightPassCount(place, i);
    }
  }

  RankMemory memory;
  const Bytes step_peak = step + std::min(bucket, traits.gradient_bucket);
  const Bytes backward_peak = backward.Total();
  memory.peak_in_optimizer_step = step_peak > backward_peak;
  memory.allocated = states;
  if (memory.peak_in_optimizer_step) {
    memory.allocated[kTransient] = step_peak;
  } else {
    for (int i = 0; i < kMemoryItemKindCount; ++i) memory.allocated.size[i] += backward.size[i];
  }
  const Bytes tensors = memory.allocated.Total();
  memory.allocated[kWorkspace] = Bytes::Ceil(coefficients[Coefficient::kWorkspaceMemory]);

  memory.total = memory.allocated;
  memory.total[kContext] = Bytes::Ceil(coefficients[Coefficient::kContextMemory]);
  memory.total[kCommunicators] =
      Bytes::Ceil(coefficients[Coefficient::kCommunicatorMemory] * place.communicator_count);
  // The blocks of the other moment stay in the allocator's cache: those of the optimizer
  // step are flat copies of gradients, far larger than the activations' segments, which
  // are not joined.
  if (!traits.expandable_segments) {
    memory.released_on_demand = std::min(step_peak, backward_peak);
  }
  memory.total[kFragmentation] =
      Bytes::Ceil(coefficients[Coefficient::kFragmentation] * tensors.as_double()) +
      memory.released_on_demand;
  return memory;
}

}  // namespace parplan
