// Data sheets that several tests of the cost model share.

#ifndef PARPLAN_TESTS_PLANNER_COST_HARDWARE_OF_TESTS_H_
#define PARPLAN_TESTS_PLANNER_COST_HARDWARE_OF_TESTS_H_

#include "planner/model/hardware.h"
#include "planner/model/model_spec.h"

namespace parplan {

// An A100 with 80 GB.
inline DeviceDescription TestDevice() {
  DeviceDescription device;
  device.device_id = "a100";
  device.device_family = "ampere";
  device.matrix_flops_16_bit = 312e12;
  device.matrix_flops_fp32 = 156e12;
  device.vector_flops_fp32 = 19.5e12;
  device.memory = Bytes::Of(80'000'000'000);
  device.memory_bytes_per_second = 2.039e12;
  device.last_level_cache = Bytes::Of(40'000'000);
  device.multiprocessor_count = 108;
  return device;
}

// NVLink inside a node of eight, as many adapters of 25 GB/s as `adapters` between.
inline FabricDescription TestFabric(int adapters) {
  FabricDescription fabric;
  fabric.fabric_id = "test";
  fabric.intra_node = {"nvlink-3", 300e9, 0.0, Seconds::Of(1e-6)};
  fabric.inter_node = {"hdr", 25e9, 25e9 * adapters, Seconds::Of(2e-6)};
  return fabric;
}

// A layer of GPT-3's shape, smaller by `hidden_size`.
inline LayerDefinition TestDecoder(int hidden_size, int head_count, int sequence_length) {
  LayerDefinition layer;
  layer.layer_definition_id = "decoder";
  layer.kind = LayerKind::kDecoder;
  layer.hidden_size = hidden_size;
  layer.attention_head_count = head_count;
  layer.feed_forward_size = 4 * hidden_size;
  layer.feed_forward_kind = FeedForwardKind::kGelu;
  layer.sequence_length = sequence_length;
  return *LayerDefinition::Create(layer, "layer");
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_COST_HARDWARE_OF_TESTS_H_
