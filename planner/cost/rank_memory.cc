#include "planner/cost/rank_memory.h"

#include <algorithm>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "planner/model/in_flight.h"

namespace parplan {
namespace {

// Number of virtual stages up to which nothing is allocated. Not measured: more than usual plans
// have.
constexpr size_t kFewStages = 32;

bool SplitsBackward(const RankPlace& place) {
  return place.pipeline_parallel_degree > 1 &&
         TraitsOf(place.schedule).backward_split == BackwardSplit::kInputsThenWeights;
}

// Returns the largest number of micro-batches between the two parts of their backward pass, the one
// in its first part included. The first device does both parts at once, so it has none.
int64_t BetweenBackwardParts(const RankPlace& place) {
  if (!SplitsBackward(place) || place.stage_index == 0) return 0;
  return std::min<int64_t>(place.stage_index + 1, place.micro_batch_count);
}

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
  // Weight passes make them, later than this; they count as if they were there.
  if (SplitsBackward(place)) return false;
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

void StageMemory::Add(const LayerMemory& layer, int64_t layer_count) {
  parameters += layer.parameters * layer_count;
  gradients += layer.gradients * layer_count;
  optimizer_states += layer.optimizer_states * layer_count;
  master_parameters += layer.master_parameters * layer_count;
  gathered_all_time += layer.gathered_all_time * layer_count;
  pass_gradients += layer.pass_gradients * layer_count;
  step += layer.step * layer_count;
  bucket += layer.bucket * layer_count;
  placeholders = std::max(placeholders, layer.placeholders);

  weight_gradients += layer.weight_gradients * layer_count;
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
  largest_tensor = std::max(largest_tensor, layer.largest_tensor);
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
  const Bytes split_extra = layer.running + layer.logits + layer.gathered + layer.message * 2;
  if (split_extra >= split_peak.extra) {
    split_peak = {.extra = split_extra,
                  .running = layer.running + layer.message * 2,
                  .logits = layer.logits,
                  .gathered = layer.gathered,
                  .message = layer.message};
  }
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
  if (context) count += 2;                            // their own, and together with the data's
  if (strategy.context_exchange_degree > 1) ++count;  // that of a ring beside that of an exchange
  if (strategy.expert_parallel_degree > 1) ++count;
  // That of an expert's ranks, and that of the ranks with the same experts.
  if (strategy.expert_tensor_parallel_degree > 1) ++count;
  if (strategy.expert_tensor_parallel_degree > 0) ++count;
  if (strategy.sharding_degree > 0) ++count;  // those within a group and between groups for one
  if (pipeline) count += 3;                   // its own, and one with each neighbour
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
  const int64_t between_parts = BetweenBackwardParts(place);
  const Bytes most_kept = peak.most_kept + stages[0]->weight_gradients * between_parts;
  const bool is_first_pass = IsFirstPassFullest(stages, outputs, place, traits, peak);

  MemoryItems states;
  Bytes step;
  Bytes bucket;
  Bytes placeholders;
  Bytes most_transient;
  Bytes largest_tensor;
  Bytes gathered_all_time;
  Bytes pass_gradients;
  MemoryItems backward;
  for (size_t i = 0; i < stages.size(); ++i) {
    const StageMemory& stage = *stages[i];
    states[kParameters] += stage.parameters;
    states[kGradients] += stage.gradients;
    states[kOptimizerStates] += stage.optimizer_states;
    states[kMasterParameters] += stage.master_parameters;
    step += stage.step;
    bucket += stage.bucket;
    placeholders = std::max(placeholders, stage.placeholders);
    most_transient = std::max(most_transient, stage.most_transient);
    largest_tensor = std::max(largest_tensor, stage.largest_tensor);
    gathered_all_time += stage.gathered_all_time;
    // One virtual stage at a time runs backward.
    pass_gradients = std::max(pass_gradients, stage.pass_gradients);
    backward[kActivations] += stage.kept.activations * peak.in_flight[i];
    backward[kCheckpoints] += (stage.kept.checkpoints + outputs[i]) * peak.in_flight[i];
  }
  const StageMemory& fullest = *stages[peak.stage_index];
  const StageMemory::Peak& running = is_first_pass       ? fullest.first_peak
                                     : between_parts > 0 ? fullest.split_peak
                                                         : fullest.peak;
  if (between_parts > 0) {
    // The first part frees nothing.
    backward[kActivations] += fullest.weight_gradients * between_parts;
    most_transient = fullest.split_peak.extra;
  }
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
  // Beside the gradients at either moment.
  states[kGradients] += placeholders;
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
  // are not joined. So are those of the gradients that each backward pass makes and frees.
  if (!traits.expandable_segments) {
    memory.released_on_demand =
        std::max(Bytes(), std::min(step_peak, backward_peak)) + pass_gradients;
  }
  memory.released_on_demand += Bytes::Ceil(traits.free_block_share * largest_tensor.as_double());
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
