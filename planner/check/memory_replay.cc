#include "planner/check/memory_replay.h"

#include <algorithm>
#include <limits>

namespace parplan {
namespace {

// A pass of a virtual stage of the device over one micro-batch.
struct ChunkPass {
  bool is_backward = false;
  int chunk = 0;
  // The gradients of weights, which a backward pass before it has left out.
  bool is_weights = false;
};

// Lists the passes of a device in order. Passes that a last group of fewer micro-batches than
// devices lacks are left out.
std::vector<ChunkPass> PassesOf(const RankPlace& place) {
  const int64_t devices = place.pipeline_parallel_degree;
  const int64_t chunks = place.virtual_stage_count;
  const int64_t micro_batches = place.micro_batch_count;
  std::vector<ChunkPass> passes;
  if (devices == 1) {
    for (int64_t m = 0; m < micro_batches; ++m) {
      for (int chunk = 0; chunk < chunks; ++chunk) passes.push_back({false, chunk});
      for (int chunk = place.virtual_stage_count - 1; chunk >= 0; --chunk) {
        passes.push_back({true, chunk});
      }
    }
    return passes;
  }
  // The chunks of forward passes in order, -1 where a last group lacks a micro-batch.
  const int64_t group_size = std::max(devices, place.micro_batch_group_size);
  std::vector<int> turns;
  if (chunks == 1) turns.assign(micro_batches, 0);
  for (int64_t first = 0; chunks > 1 && first < micro_batches; first += group_size) {
    const int64_t size = std::min(group_size, micro_batches - first);
    for (int chunk = 0; chunk < place.virtual_stage_count; ++chunk) {
      turns.insert(turns.end(), size, chunk);
      if (size < devices) turns.insert(turns.end(), devices - size, -1);
    }
  }
  const auto number_count = static_cast<int64_t>(turns.size());
  const auto add = [&](bool is_backward, int64_t number) {
    if (number < 0 || number >= number_count || turns[number] < 0) return;
    const int turn = turns[number];
    passes.push_back({is_backward, is_backward ? place.virtual_stage_count - 1 - turn : turn});
  };
  int64_t warm_up = 0;
  switch (place.schedule) {
    case Schedule::kGpipe:
      warm_up = number_count;
      break;
    case Schedule::kOneForwardOneBackward:
    case Schedule::kInterleaved:
    case Schedule::kZeroBubble:
      warm_up = devices - place.stage_index - 1;
      if (chunks > 1) warm_up = 2 * warm_up + (chunks - 1) * group_size;
      break;
  }
  warm_up = std::min(warm_up, number_count);
  for (int64_t i = 0; i < warm_up + number_count; ++i) {
    add(false, i);
    add(true, i - warm_up);
    // The first device does both parts of a backward pass at once.
    if (place.schedule != Schedule::kZeroBubble || place.stage_index == 0) continue;
    if (i - warm_up >= place.stage_index) passes.push_back({true, 0, true});
  }
  for (int64_t i = 0; place.schedule == Schedule::kZeroBubble && i < micro_batches; ++i) {
    if (i < place.stage_index) passes.push_back({true, 0, true});
  }
  return passes;
}

// The memory apart from states at some moment of the step.
struct Moment {
  Bytes activations;
  Bytes checkpoints;
  Bytes running;
  Bytes logits;
  Bytes gathered;
  // Those that exist, if the runtime makes gradients in the step.
  Bytes gradients;
  int64_t in_flight_of_first = 0;
  Bytes Sum() const { return activations + checkpoints + running + logits + gathered + gradients; }
};

}  // namespace

ReplayedMemory ReplayMemory(const std::vector<LayerMemoryRun>& layers, const RankPlace& place,
                            const RuntimeTraits& runtime, const Coefficients& coefficients) {
  using enum MemoryItemKind;
  MemoryItems items;
  Bytes all_time;
  Bytes copies;
  Bytes bucket;
  Bytes placeholders;
  Bytes most_running;
  Bytes largest;
  // [chunk] memory that its forward pass leaves, and the worst moment of its backward pass relative
  // to the memory before it.
  std::vector<Moment> left(place.virtual_stage_count);
  std::vector<Moment> worst(place.virtual_stage_count);
  // The same of the first backward pass where gradients are made in it.
  const bool splits = place.schedule == Schedule::kZeroBubble && place.stage_index > 0;
  const bool makes =
      runtime.makes_gradients_in_step && place.virtual_stage_count == 1 &&
      (place.schedule != Schedule::kZeroBubble || place.pipeline_parallel_degree == 1);
  // Gradients that a split backward pass leaves for those of weights.
  Bytes left_for_weights;
  Moment worst_of_first;
  std::vector<Bytes> sent(place.virtual_stage_count);
  // [chunk] gradients that its backward pass makes and frees.
  std::vector<Bytes> passing(place.virtual_stage_count);
  std::vector<char> has_layers(place.virtual_stage_count, 0);
  for (auto entry = layers.rbegin(); entry != layers.rend(); ++entry) {
    const LayerMemory& layer = entry->layer;
    items[kParameters] += layer.parameters;
    items[kGradients] += layer.gradients;
    items[kOptimizerStates] += layer.optimizer_states;
    items[kMasterParameters] += layer.master_parameters;
    all_time += layer.gathered_all_time;
    copies += layer.step;
    bucket += layer.bucket;
    placeholders = std::max(placeholders, layer.placeholders);
    largest = std::max(largest, layer.largest_tensor);
    passing[entry->virtual_stage_index] += layer.pass_gradients;
    // One message is arriving and one is leaving, or one sent message is held in either direction.
    const Bytes running = layer.running + layer.message + layer.message;
    const Bytes freed = splits ? Bytes() : layer.freed;
    most_running = std::max(most_running, running - freed + layer.logits + layer.gathered);
    left_for_weights += layer.weight_gradients;
    const bool is_end =
        place.stage_index == 0 || place.stage_index == place.pipeline_parallel_degree - 1;
    const bool has_one = runtime.holds_messages_sent && place.virtual_stage_count == 1 && is_end;
    Moment& kept = left[entry->virtual_stage_index];
    const Moment here = {.activations = splits ? Bytes() : Bytes() - kept.activations - freed,
                         .checkpoints = splits ? Bytes() : Bytes() - kept.checkpoints,
                         .running = has_one ? running - layer.message : running,
                         .logits = layer.logits,
                         .gathered = layer.gathered};
    Moment of_first = here;
    // The gradients of the layers seen before.
    of_first.gradients = items[kGradients] - layer.gradients;
    Moment& most = worst[entry->virtual_stage_index];
    char& seen = has_layers[entry->virtual_stage_index];
    // The first layer seen is the last one of the stage.
    if (seen == 0) sent[entry->virtual_stage_index] = layer.message;
    if (seen == 0 || here.Sum() > most.Sum()) most = here;
    if (seen == 0 || of_first.Sum() > worst_of_first.Sum()) worst_of_first = of_first;
    seen = 1;
    (layer.kept_are_checkpoints ? kept.checkpoints : kept.activations) += layer.kept;
  }
  const bool has_pipeline = place.pipeline_parallel_degree > 1;
  const bool is_last = place.stage_index == place.pipeline_parallel_degree - 1;
  for (int chunk = 0; chunk < place.virtual_stage_count; ++chunk) {
    if (!has_pipeline || !runtime.keep_stage_outputs) break;
    if (is_last && chunk + 1 == place.virtual_stage_count) break;
    left[chunk].checkpoints += sent[chunk];
  }

  // Activations that the first device, and gradients that the last one, received before their turn.
  Bytes early;
  const int64_t early_count = place.micro_batch_group_size - place.pipeline_parallel_degree;
  for (int chunk = 0; chunk < place.virtual_stage_count; ++chunk) {
    if (early_count <= 0 || (place.stage_index > 0 && !is_last)) break;
    if (is_last && chunk + 1 == place.virtual_stage_count) break;
    early = std::max(early, sent[chunk] * early_count);
  }

  Moment now;
  Moment peak;
  Bytes most = Bytes::Of(std::numeric_limits<int64_t>::min());
  Bytes most_kept;
  bool has_gradients = false;
  for (const ChunkPass& pass : PassesOf(place)) {
    const Moment& kept = left[pass.chunk];
    if (!pass.is_backward) {
      now.activations += kept.activations;
      now.checkpoints += kept.checkpoints;
      if (pass.chunk == 0) ++now.in_flight_of_first;
      most_kept = std::max(most_kept, now.Sum());
      continue;
    }
    if (pass.is_weights) {
      now.activations -= kept.activations + left_for_weights;
      now.checkpoints -= kept.checkpoints;
      --now.in_flight_of_first;
      continue;
    }
    if (splits) {
      now.activations += left_for_weights;
      most_kept = std::max(most_kept, now.Sum());
    }
    Moment extra = makes && !has_gradients ? worst_of_first : worst[pass.chunk];
    if (makes && has_gradients) extra.gradients = items[kGradients];
    has_gradients = true;
    if (now.Sum() + extra.Sum() > most) {
      most = now.Sum() + extra.Sum();
      peak = extra;
      peak.activations += now.activations;
      peak.checkpoints += now.checkpoints;
      peak.in_flight_of_first = now.in_flight_of_first;
    }
    if (splits) continue;
    now.activations -= kept.activations;
    now.checkpoints -= kept.checkpoints;
    if (pass.chunk == 0) --now.in_flight_of_first;
  }

  peak.running += early;
  most_running += early;
  const Bytes states = items.Total() + placeholders;
  const Bytes in_backward = peak.Sum() + all_time - (makes ? items[kGradients] : Bytes());
  const Bytes in_step = copies + std::min(bucket, runtime.gradient_bucket);
  ReplayedMemory replayed;
  replayed.in_flight_micro_batch_count = peak.in_flight_of_first;
  replayed.tensor_bound = states + std::max(all_time + most_kept + most_running, in_step);
  if (in_step > in_backward) {
    items[kTransient] = in_step;
  } else {
    if (makes) items[kGradients] = peak.gradients;
    items[kActivations] = peak.activations;
    items[kCheckpoints] = peak.checkpoints;
    items[kTransient] = peak.running;
    items[kLogits] = peak.logits;
    items[kGatheredParameters] = peak.gathered + all_time;
  }
  items[kGradients] += placeholders;
  items[kFragmentation] =
      Bytes::Ceil(coefficients[Coefficient::kFragmentation] * items.Total().as_double());
  // Memory that the other moment, and gradients of a pass, leave in the allocator.
  if (!runtime.expandable_segments) {
    items[kFragmentation] += std::max(Bytes(), std::min(in_step, in_backward)) +
                             *std::max_element(passing.begin(), passing.end());
  }
  // Free blocks between tensors.
  items[kFragmentation] += Bytes::Ceil(runtime.free_block_share * largest.as_double());
  items[kWorkspace] = Bytes::Ceil(coefficients[Coefficient::kWorkspaceMemory]);
  items[kContext] = Bytes::Ceil(coefficients[Coefficient::kContextMemory]);
  items[kCommunicators] =
      Bytes::Ceil(coefficients[Coefficient::kCommunicatorMemory] * place.communicator_count);
  replayed.total = items;
  return replayed;
}

}  // namespace parplan
