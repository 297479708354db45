#include "tests/executor/trainer/predicted_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/layer_probe/memory_probe.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/model/planning_problem.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/planner/cost/hardware_of_tests.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

template <typename T>
T Valid(absl::StatusOr<T> value) {
  PARPLAN_CHECK(value.ok());
  return *std::move(value);
}

// By as many ranks as the degree, once for each model of the tests, which differ in the
// parameters of their layers or in their kinds.
const std::vector<LayerSizes>& SizesOf(const ModelSpec& model, const LayerProbeShape& shape) {
  using Key = std::tuple<int64_t, LayerKind, FeedForwardKind, bool, int, bool>;
  static auto* const known = new std::map<Key, std::vector<LayerSizes>>;
  const LayerDefinition& middle = model.layer(1);
  const Key key = {
      model.parameter_count(),      middle.kind,
      middle.feed_forward_kind,     model.layer(model.layer_count() - 1).tied_embedding,
      shape.tensor_parallel_degree, shape.sequence_parallel};
  std::vector<LayerSizes>& sizes = (*known)[key];
  if (!sizes.empty()) return sizes;
  std::mutex mutex;
  RunRanks(shape.tensor_parallel_degree, {.spin_count = 50}, [&](JobFabric& fabric) {
    std::vector<int> all;
    for (int rank = 0; rank < fabric.world_size(); ++rank) all.push_back(rank);
    std::unique_ptr<Communicator> control;
    if (all.size() > 1) {
      ASSERT_OK_AND_ASSIGN(control, fabric.MakeGroup("control", all));
    }
    const std::unique_ptr<LayerKernels> kernels = MakeCpuKernels(ElementType::kFloat32);
    const std::unique_ptr<DeviceMemory> memory = MakeHostMemory();
    ASSERT_OK_AND_ASSIGN(
        std::vector<LayerSizes> measured,
        ProbeMemory(model, shape,
                    {.rank = fabric.rank(),
                     .world_size = fabric.world_size(),
                     .kernels = kernels.get(),
                     .memory = memory.get(),
                     .make_group =
                         [&](const std::string& purpose, const std::vector<int>& ranks) {
                           return fabric.MakeGroup(purpose, ranks);
                         },
                     .control = control.get()}));
    const std::lock_guard<std::mutex> lock(mutex);
    sizes = std::move(measured);
  });
  return sizes;
}

bool UsesSequenceParallelism(const Plan& plan) {
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      if (run.strategy.sequence_parallel) return true;
    }
  }
  return false;
}

ProfileSnapshot Profile(const ModelSpec& model, const Plan& plan, MemoryKnowledge knowledge,
                        const NodeGroup& group) {
  ProfileSnapshot::Content content;
  content.device_kind = group.device_kind;
  content.devices_per_node = group.devices_per_node;
  // Nothing but arrays.
  content.context_memory = Bytes();
  content.overlap_slowdown = 1.0;
  if (knowledge == MemoryKnowledge::kTheory) return Valid(ProfileSnapshot::Create(content));
  const bool sequence_parallel = UsesSequenceParallelism(plan);
  for (const LayerDefinition& definition : model.layer_definitions()) {
    content.layers.push_back({.definition = definition, .precision = model.precision()});
  }
  for (int degree = 1; degree <= plan.device_count; ++degree) {
    if (plan.device_count % degree != 0) continue;
    if (model.layer(1).key_value_head_count % degree != 0) continue;
    const LayerProbeShape shape{.tensor_parallel_degree = degree,
                                .sequence_parallel = sequence_parallel && degree > 1,
                                .samples = 2};
    for (const LayerSizes& sizes : SizesOf(model, shape)) {
      MeasuredLayer& layer = content.layers[sizes.definition_index];
      layer.memories.push_back({.tensor_parallel_degree = degree,
                                .sequence_parallel = shape.sequence_parallel,
                                .sequence_length = sizes.sequence_length,
                                .parameter_count = sizes.parameter_count,
                                .activation_per_sample = sizes.activation_per_sample,
                                .checkpoint_per_sample = sizes.checkpoint_per_sample});
      // Time does not matter here.
      layer.timings.push_back({.tensor_parallel_degree = degree,
                               .micro_batch_size = 1,
                               .sequence_length = sizes.sequence_length,
                               .forward = Seconds::Of(1e-3),
                               .backward = Seconds::Of(2e-3)});
    }
  }
  return Valid(ProfileSnapshot::Create(content));
}

}  // namespace

std::vector<MemoryItems> PredictMemory(const ModelSpec& model, const Plan& plan,
                                       MemoryKnowledge knowledge) {
  const NodeGroup group{.node_group_id = "group",
                        .device_kind = "CPU of tests",
                        .node_count = 1,
                        .devices_per_node = plan.device_count,
                        .device_memory = Bytes::Of(int64_t{1} << 34)};
  PlanningRules rules;
  rules.allow_estimates = true;
  const PlanningProblem problem = Valid(PlanningProblem::Create(
      std::make_shared<ModelSpec>(model),
      std::make_shared<Topology>(
          Valid(Topology::Create("cluster", {group}, {{"node", plan.device_count}}))),
      {{{.profile = std::make_shared<ProfileSnapshot>(Profile(model, plan, knowledge, group)),
         .hardware = std::make_shared<Hardware>(Hardware{TestDevice(), TestFabric(1)})}}},
      plan.global_batch_size, rules));
  const CostModel costs = Valid(CostModel::Create(problem));
  const Prediction prediction = PredictPlan(problem, costs, plan);
  std::vector<MemoryItems> devices;
  for (const StagePrediction& stage : prediction.stages) devices.push_back(stage.memory);
  return devices;
}

MemoryItems ItemsOf(const ArrayUsage& usage) {
  MemoryItems items;
  items[MemoryItemKind::kParameters] = usage[ArrayUse::kParameters];
  items[MemoryItemKind::kGradients] = usage[ArrayUse::kGradients];
  items[MemoryItemKind::kOptimizerStates] = usage[ArrayUse::kOptimizerStates];
  items[MemoryItemKind::kMasterParameters] = usage[ArrayUse::kMasterParameters];
  items[MemoryItemKind::kActivations] = usage[ArrayUse::kActivations];
  items[MemoryItemKind::kCheckpoints] = usage[ArrayUse::kCheckpoints];
  items[MemoryItemKind::kGatheredParameters] = usage[ArrayUse::kGatheredParameters];
  items[MemoryItemKind::kLogits] = usage[ArrayUse::kLogits];
  items[MemoryItemKind::kTransient] = usage[ArrayUse::kTransient];
  return items;
}

}  // namespace parplan
