#include "profiler-agent/probe/profile_entries.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/model_wire.h"

namespace parplan {
namespace {

// Smallest time of a profile, which must be positive.
constexpr absl::Duration kShortestTime = absl::Nanoseconds(1);

google::protobuf::Duration TimeToProto(absl::Duration time) {
  return DurationToProto(std::max(time, kShortestTime));
}

}  // namespace

void ProfileEntries::AddCollective(const agent::v1::CollectiveKey& key, const TimeSpread& spread) {
  v1::CollectiveTiming& timing = *profile_.add_collective_timings();
  timing.set_collective(key.collective());
  timing.set_participant_count(key.participant_count());
  timing.set_rank_stride(key.rank_stride());
  timing.set_message_size_bytes(key.message_size_bytes());
  *timing.mutable_median_duration() = TimeToProto(spread.median);
  *timing.mutable_p90_duration() = TimeToProto(std::max(spread.p90, spread.median));
  timing.set_sample_count(spread.sample_count);
  timing.set_origin(v1::ORIGIN_MEASURED);
}

std::string ProfileEntries::IdOf(const LayerDefinition& layer, Precision precision) {
  const std::string digest = LayerDigest(layer, precision);
  const auto found = ids_.find(digest);
  if (found != ids_.end()) return found->second;
  std::string id = layer.layer_definition_id;
  while (known_ids_.contains(id)) absl::StrAppend(&id, "_");
  known_ids_.insert(id);
  ids_[digest] = id;
  v1::LayerDefinition& message = *profile_.add_layer_definitions();
  message = LayerDefinitionToProto(layer);
  message.set_layer_definition_id(id);
  return id;
}

void ProfileEntries::AddLayer(const ModelSpec& model, const LayerTimes& times) {
  const LayerDefinition& layer = model.layer_definitions()[times.definition_index];
  const std::string id = IdOf(layer, model.precision());
  const auto key = std::make_tuple(id, times.shape.tensor_parallel_degree, times.shape.samples,
                                   times.sequence_length);
  if (!timed_.insert(key).second) return;
  v1::LayerTiming& timing = *profile_.add_layer_timings();
  timing.set_layer_definition_id(id);
  timing.set_tensor_parallel_degree(times.shape.tensor_parallel_degree);
  timing.set_micro_batch_size(static_cast<int>(times.shape.samples));
  timing.set_sequence_length(times.sequence_length);
  *timing.mutable_forward_duration() = TimeToProto(times.forward.median);
  *timing.mutable_backward_duration() = TimeToProto(times.backward.median);
  *timing.mutable_forward_duration_p90() =
      TimeToProto(std::max(times.forward.p90, times.forward.median));
  timing.set_sample_count(times.forward.sample_count);
  timing.set_origin(v1::ORIGIN_MEASURED);
  AddOptimizer(model.optimizer(), times);
}

// Different layers may have equally many parameters; their step is stored once.
void ProfileEntries::AddOptimizer(Optimizer optimizer, const LayerTimes& times) {
  if (times.optimizer_step.median <= absl::ZeroDuration() || times.parameter_count < 1) return;
  const v1::Optimizer wire = OptimizerToProto(optimizer);
  if (!stepped_.insert({static_cast<int>(wire), times.parameter_count}).second) return;
  v1::OptimizerTiming& timing = *profile_.add_optimizer_timings();
  timing.set_optimizer(wire);
  timing.set_parameter_count(times.parameter_count);
  *timing.mutable_median_duration() = TimeToProto(times.optimizer_step.median);
  *timing.mutable_p90_duration() =
      TimeToProto(std::max(times.optimizer_step.p90, times.optimizer_step.median));
  timing.set_sample_count(times.optimizer_step.sample_count);
  timing.set_origin(v1::ORIGIN_MEASURED);
}

void ProfileEntries::AddSizes(const ModelSpec& model, const LayerSizes& sizes) {
  const LayerDefinition& layer = model.layer_definitions()[sizes.definition_index];
  const std::string id = IdOf(layer, model.precision());
  const bool shares_tokens =
      sizes.shape.sequence_parallel && sizes.shape.tensor_parallel_degree > 1;
  const auto key =
      std::make_tuple(id, sizes.shape.tensor_parallel_degree, shares_tokens, sizes.sequence_length);
  if (!sized_.insert(key).second) return;
  v1::LayerMemory& memory = *profile_.add_layer_memories();
  memory.set_layer_definition_id(id);
  memory.set_tensor_parallel_degree(sizes.shape.tensor_parallel_degree);
  memory.set_sequence_parallel(shares_tokens);
  memory.set_sequence_length(sizes.sequence_length);
  memory.set_parameter_count(sizes.parameter_count);
  memory.set_activation_bytes_per_sample(sizes.activation_per_sample.count());
  memory.set_checkpoint_bytes_per_sample(sizes.checkpoint_per_sample.count());
  memory.set_origin(v1::ORIGIN_MEASURED);
}

}  // namespace parplan
