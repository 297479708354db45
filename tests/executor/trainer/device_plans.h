// A few plans that between them use everything of a device.

#ifndef PARPLAN_TESTS_EXECUTOR_TRAINER_DEVICE_PLANS_H_
#define PARPLAN_TESTS_EXECUTOR_TRAINER_DEVICE_PLANS_H_

#include <string>
#include <vector>

#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "tests/planner/program/program_cases.h"

namespace parplan {

struct DevicePlan {
  std::string name;
  ModelSpec model;
  Plan plan;
};

inline constexpr int64_t kDevicePlanBatch = 8;

// Over two, four and eight ranks.
inline std::vector<DevicePlan> DevicePlans() {
  const auto of = [](std::string name, const ModelSpec& model, int devices,
                     const std::vector<int>& stages, const std::vector<Strategy>& strategies,
                     int64_t micro_batches) {
    return DevicePlan{std::move(name), model,
                      PlanOf(model, devices, stages, strategies, kDevicePlanBatch, micro_batches)};
  };
  const Strategy data2{.data_parallel_degree = 2};
  Strategy zero3 = data2;
  zero3.sharding_level = ShardingLevel::kParameters;
  Strategy zero1 = data2;
  zero1.sharding_level = ShardingLevel::kOptimizer;
  const Strategy tensor2{.tensor_parallel_degree = 2};
  Strategy sequence2 = tensor2;
  sequence2.sequence_parallel = true;
  const Strategy ring2{.context_parallel_degree = 2};
  const Strategy ulysses2{.context_parallel_degree = 2, .context_kind = ContextKind::kUlysses};
  Strategy mixed4{.tensor_parallel_degree = 2, .data_parallel_degree = 2};
  mixed4.sequence_parallel = true;
  mixed4.sharding_level = ShardingLevel::kGradients;
  Strategy sharded4{.tensor_parallel_degree = 2, .data_parallel_degree = 2};
  sharded4.sharding_level = ShardingLevel::kParameters;
  const ModelSpec gpt = SmallGpt(2);
  const ModelSpec llama = SmallLlama(2);
  return {of("Data2", gpt, 2, {4}, {data2}, 2),
          of("Zero1", gpt, 2, {4}, {zero1}, 2),
          of("Zero3", llama, 2, {4}, {zero3}, 2),
          of("Tensor2", gpt, 2, {4}, {tensor2}, 1),
          of("Sequence2", llama, 2, {4}, {sequence2}, 2),
          of("Ring2", gpt, 2, {4}, {ring2}, 1),
          of("Ulysses2", llama, 2, {4}, {ulysses2}, 1),
          of("Pipeline2", SmallGpt(2, /*is_tied=*/true), 2, {2, 2}, {Strategy()}, 4),
          of("Mixed4", gpt, 4, {4}, {mixed4, {.data_parallel_degree = 4}}, 2),
          of("Pipeline2Data2", llama, 4, {2, 2}, {data2, tensor2}, 4),
          of("Tensor2Pipeline2Data2", llama, 8, {2, 2}, {sharded4}, 4)};
}

// The same on one device.
inline Plan SerialPlan(const ModelSpec& model) {
  return PlanOf(model, 1, {4}, {Strategy()}, kDevicePlanBatch, 1);
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_TRAINER_DEVICE_PLANS_H_
