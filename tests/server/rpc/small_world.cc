#include "tests/server/rpc/small_world.h"

#include <cstdint>

namespace parplan {
namespace {

constexpr int64_t kGibibyte = int64_t{1} << 30;
constexpr char kDevice[] = "Test GPU";

v1::LayerDefinition Decoder() {
  v1::LayerDefinition layer;
  layer.set_layer_definition_id("decoder");
  layer.set_kind(v1::LAYER_KIND_DECODER);
  layer.set_hidden_size(1024);
  layer.set_attention_head_count(16);
  layer.set_feed_forward_size(4096);
  layer.set_feed_forward_kind(v1::FEED_FORWARD_KIND_GELU);
  layer.set_sequence_length(512);
  return layer;
}

void SetMilliseconds(double milliseconds, google::protobuf::Duration* duration) {
  duration->set_nanos(static_cast<int32_t>(milliseconds * 1e6));
}

}  // namespace

v1::ModelSpec SmallModel() {
  v1::ModelSpec model;
  model.set_model_id("small");
  *model.add_layer_definitions() = Decoder();
  v1::ModelLayerRun& run = *model.add_layer_runs();
  run.set_layer_definition_id("decoder");
  run.set_layer_count(4);
  model.set_precision(v1::PRECISION_BF16);
  model.set_optimizer(v1::OPTIMIZER_ADAM);
  return model;
}

v1::ClusterTopology SmallTopology() {
  v1::ClusterTopology topology;
  topology.set_cluster("lab");
  v1::NodeGroup& group = *topology.add_node_groups();
  group.set_node_group_id("nodes");
  group.set_device_kind(kDevice);
  group.set_node_count(1);
  group.set_devices_per_node(2);
  group.set_device_memory_bytes(16 * kGibibyte);
  v1::LinkTier& tier = *topology.add_link_tiers();
  tier.set_tier_id("nvlink");
  tier.set_reach_device_count(2);
  return topology;
}

v1::Profile SmallProfile() {
  v1::Profile profile;
  profile.mutable_provenance()->set_agent("test");
  profile.set_device_kind(kDevice);
  profile.set_devices_per_node(2);
  profile.set_precision(v1::PRECISION_BF16);
  profile.set_overlap_slowdown(1.2);
  profile.set_context_memory_bytes(kGibibyte / 2);
  *profile.add_layer_definitions() = Decoder();
  for (const int degree : {1, 2}) {
    for (const int batch : {1, 2, 4, 8}) {
      v1::LayerTiming& timing = *profile.add_layer_timings();
      timing.set_layer_definition_id("decoder");
      timing.set_tensor_parallel_degree(degree);
      timing.set_micro_batch_size(batch);
      SetMilliseconds(0.5 + 1.0 * batch / degree, timing.mutable_forward_duration());
      SetMilliseconds(1.0 + 2.0 * batch / degree, timing.mutable_backward_duration());
    }
    v1::LayerMemory& memory = *profile.add_layer_memories();
    memory.set_layer_definition_id("decoder");
    memory.set_tensor_parallel_degree(degree);
    memory.set_parameter_count(12'600'000 / degree);
    memory.set_activation_bytes_per_sample(34'000'000 / degree);
    memory.set_checkpoint_bytes_per_sample(1'048'576);
  }
  for (const v1::Collective collective :
       {v1::COLLECTIVE_ALL_REDUCE, v1::COLLECTIVE_ALL_GATHER, v1::COLLECTIVE_REDUCE_SCATTER,
        v1::COLLECTIVE_SEND_RECEIVE}) {
    for (const int64_t size : {int64_t{1} << 16, int64_t{1} << 22, int64_t{1} << 28}) {
      v1::CollectiveTiming& timing = *profile.add_collective_timings();
      timing.set_collective(collective);
      timing.set_participant_count(2);
      timing.set_rank_stride(1);
      timing.set_message_size_bytes(size);
      SetMilliseconds(0.02 + static_cast<double>(size) / 100e6, timing.mutable_median_duration());
    }
  }
  return profile;
}

v1::CreatePlanRequest SmallQuestion() {
  v1::CreatePlanRequest request;
  request.set_parent(kCluster);
  *request.mutable_spec()->mutable_model() = SmallModel();
  *request.mutable_spec()->mutable_topology() = SmallTopology();
  request.mutable_spec()->set_global_batch_size(8);
  return request;
}

v1::ShapePlanRequest SmallShapeQuestion() {
  v1::ShapePlanRequest request;
  request.set_parent(kCluster);
  *request.mutable_model() = SmallModel();
  v1::DeviceOffer& offer = *request.add_offers();
  offer.set_device_kind(kDevice);
  offer.set_devices_per_node(2);
  offer.set_device_memory_bytes(16 * kGibibyte);
  offer.set_min_device_count(1);
  offer.set_max_device_count(2);
  request.set_global_batch_size(8);
  return request;
}

}  // namespace parplan
