// A small valid profile, one entry of every kind, for tests of rules.

#ifndef PARPLAN_TESTS_PROTO_WIRE_SMALL_PROFILE_H_
#define PARPLAN_TESTS_PROTO_WIRE_SMALL_PROFILE_H_

#include "parplan/v1/profile.pb.h"

namespace parplan {

inline v1::Profile SmallProfile() {
  v1::Profile profile;
  profile.mutable_provenance()->set_agent("test 1.0");
  profile.set_device_kind("GPU");
  profile.set_devices_per_node(8);
  profile.set_precision(v1::PRECISION_BF16);
  v1::LayerDefinition& definition = *profile.add_layer_definitions();
  definition.set_layer_definition_id("decoder");
  definition.set_kind(v1::LAYER_KIND_DECODER);
  definition.set_hidden_size(64);
  definition.set_attention_head_count(4);
  definition.set_feed_forward_size(256);
  definition.set_feed_forward_kind(v1::FEED_FORWARD_KIND_GELU);
  definition.set_sequence_length(32);
  v1::LayerTiming& timing = *profile.add_layer_timings();
  timing.set_layer_definition_id("decoder");
  timing.set_tensor_parallel_degree(1);
  timing.set_micro_batch_size(2);
  timing.mutable_forward_duration()->set_nanos(5'000'000);
  v1::LayerMemory& memory = *profile.add_layer_memories();
  memory.set_layer_definition_id("decoder");
  memory.set_tensor_parallel_degree(1);
  memory.set_parameter_count(49'000);
  memory.set_activation_bytes_per_sample(1000);
  v1::CollectiveTiming& collective = *profile.add_collective_timings();
  collective.set_collective(v1::COLLECTIVE_ALL_REDUCE);
  collective.set_participant_count(8);
  collective.set_rank_stride(1);
  collective.set_message_size_bytes(1 << 20);
  collective.mutable_median_duration()->set_nanos(300'000);
  profile.set_overlap_slowdown(1.2);
  profile.set_context_memory_bytes(1 << 29);
  return profile;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_PROTO_WIRE_SMALL_PROFILE_H_
