#include "tests/proto/wire/reverse_wire.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/hardware_wire.h"

namespace parplan {
namespace {

int64_t Whole(double rate) { return static_cast<int64_t>(std::llround(rate)); }

}  // namespace

v1::PlanningOptions OptionsToProto(const PlanningOptions& options) {
  v1::PlanningOptions message;
  message.set_planner(options.planner);
  message.set_memory_headroom_ratio(options.rules.memory_headroom_ratio);
  message.set_max_tensor_parallel_degree(options.rules.max_tensor_parallel_degree);
  message.set_max_pipeline_parallel_degree(options.rules.max_pipeline_parallel_degree);
  message.set_micro_batch_count(options.rules.micro_batch_count);
  if (options.rules.schedule.has_value()) {
    message.set_schedule(ScheduleToProto(*options.rules.schedule));
  }
  message.set_disable_recompute(!options.rules.allow_recompute);
  message.set_disable_sharded_data_parallel(!options.rules.allow_sharded_data_parallel);
  message.set_allow_estimates(options.rules.allow_estimates);
  message.set_runtime_id(options.rules.runtime.runtime_id);
  message.set_out_of_memory_probability(options.rules.out_of_memory_risk);
  if (options.search_time_limit.has_value()) {
    *message.mutable_search_time_limit() = DurationToProto(*options.search_time_limit);
  }
  message.set_space(options.rules.dimensions.ToString());
  message.set_target(std::string(LimitsOf(options.rules.target).name));
  message.set_smallest_global_batch_size(options.rules.smallest_global_batch_size);
  message.set_global_batch_size_step(options.rules.global_batch_size_step);
  message.set_wants_robust_plan(options.wants_robust_plan);
  // A question for the robust plan that asks for one plan compares more.
  const bool is_count_of_comparison = options.wants_robust_plan &&
                                      options.robust_alternative_count == 1 &&
                                      options.rules.top_plan_count == kRobustPlanCount;
  message.set_top_plan_count(is_count_of_comparison ? 1 : options.rules.top_plan_count);
  message.set_wants_memory_front(options.rules.wants_memory_front);
  if (options.rules.ilp_alpha_bytes_per_second.has_value()) {
    message.set_ilp_alpha_bytes_per_second(*options.rules.ilp_alpha_bytes_per_second);
  }
  message.set_partitioner(std::string(PartitionerName(options.rules.partitioner)));
  message.set_memory_granule_bytes(options.rules.memory_granule.count());
  message.set_fused_layer_count(options.rules.fused_layer_count);
  message.set_max_state_count(options.max_state_count);
  if (options.wanted_gap_ratio.has_value()) {
    message.set_wanted_gap_ratio(*options.wanted_gap_ratio);
  }
  message.set_compare_baselines(options.compare_baselines);
  return message;
}

v1::DeviceDescription DeviceToProto(const DeviceDescription& device) {
  v1::DeviceDescription message;
  message.set_device_id(device.device_id);
  message.set_device_family(device.device_family);
  message.set_matrix_flops_16_bit(device.matrix_flops_16_bit);
  message.set_matrix_flops_fp32(device.matrix_flops_fp32);
  message.set_vector_flops_fp32(device.vector_flops_fp32);
  message.set_memory_bytes(device.memory.count());
  message.set_memory_bytes_per_second(Whole(device.memory_bytes_per_second));
  message.set_last_level_cache_bytes(device.last_level_cache.count());
  message.set_multiprocessor_count(device.multiprocessor_count);
  message.set_matrix_flops_8_bit(device.matrix_flops_8_bit);
  message.set_matrix_flops_4_bit(device.matrix_flops_4_bit);
  message.set_power_limit_watts(device.power_limit_watts);
  return message;
}

v1::LinkDescription LinkToProto(const LinkDescription& link) {
  v1::LinkDescription message;
  message.set_link_id(link.link_id);
  message.set_bytes_per_second_per_device(Whole(link.bytes_per_second_per_device));
  message.set_bytes_per_second_per_node(Whole(link.bytes_per_second_per_node));
  *message.mutable_latency_duration() = DurationToProto(link.latency);
  return message;
}

v1::FabricDescription FabricToProto(const FabricDescription& fabric) {
  v1::FabricDescription message;
  message.set_fabric_id(fabric.fabric_id);
  *message.mutable_intra_node() = LinkToProto(fabric.intra_node);
  *message.mutable_inter_node() = LinkToProto(fabric.inter_node);
  return message;
}

absl::StatusOr<FabricDescription> FabricFromProto(const v1::FabricDescription& message) {
  FabricDescription fabric;
  fabric.fabric_id = message.fabric_id();
  PARPLAN_ASSIGN_OR_RETURN(fabric.intra_node,
                           LinkFromProto(message.intra_node(), "fabric.intra_node"));
  PARPLAN_ASSIGN_OR_RETURN(fabric.inter_node,
                           LinkFromProto(message.inter_node(), "fabric.inter_node"));
  return FabricDescription::Create(std::move(fabric), "fabric");
}

}  // namespace parplan
