// Plans on GPUs: what comes out is that of fp64 on the processor, as near as the type is. Ranks
// share one GPU, and groups go through the host; or each has its own, and groups are NCCL's.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tests/executor/device/cuda/gpu.h"
#include "tests/executor/trainer/device_parity.h"
#include "tests/executor/trainer/device_plans.h"
#include "tests/executor/trainer/device_run.h"

namespace parplan {
namespace {

class Gpu : public RankDevice {
 public:
  Gpu(std::unique_ptr<Device> device, std::unique_ptr<LayerKernels> kernels)
      : device_(std::move(device)), kernels_(std::move(kernels)) {}
  LayerKernels& kernels() override { return *kernels_; }
  DeviceMemory& memory() override { return device_->memory(); }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(JobFabric& fabric,
                                                          const std::string& name,
                                                          const std::vector<int>& ranks) override {
    return device_->MakeGroup(fabric, name, ranks);
  }
  bool communicates_ahead() const override { return true; }

 private:
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<LayerKernels> kernels_;
};

std::unique_ptr<RankDevice> OpenGpu(DeviceBackend& backend, int index, ElementType type) {
  absl::StatusOr<std::unique_ptr<Device>> device = backend.Open(index);
  if (!device.ok()) return nullptr;
  absl::StatusOr<std::unique_ptr<LayerKernels>> kernels = (*device)->MakeKernels(type);
  if (!kernels.ok()) return nullptr;
  return std::make_unique<Gpu>(*std::move(device), *std::move(kernels));
}

// `shares`: all ranks are on GPU 0.
void ExpectParityOnGpus(DeviceBackend& backend, const Plan& plan, const ModelSpec& model,
                        bool shares) {
  const SgdSettings optimizer;
  const DeviceRun exact = RunOnDevices(SerialPlan(model), model, optimizer,
                                       [](int) { return MakeNearDevice(ElementType::kFloat64); });
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    const DeviceRun run = RunOnDevices(plan, model, optimizer, [&](int rank) {
      return OpenGpu(backend, shares ? 0 : rank, type);
    });
    ExpectParity(run, exact, type == ElementType::kFloat32 ? 1e-5 : 1e-2);
  }
}

TEST(GpuTraining, OneRank) {
  PARPLAN_GPUS_OR_SKIP(backend);
  for (const ModelSpec& model : {SmallGpt(2), SmallLlama(2)}) {
    ExpectParityOnGpus(*backend, SerialPlan(model), model, /*shares=*/true);
  }
}

TEST(GpuTraining, RanksOfOneGpu) {
  PARPLAN_GPUS_OR_SKIP(backend, GroupTransport::kStaged);
  for (const DevicePlan& each : DevicePlans()) {
    SCOPED_TRACE(each.name);
    ExpectParityOnGpus(*backend, each.plan, each.model, /*shares=*/true);
  }
}

TEST(GpuTraining, RanksOfSeveralGpus) {
  PARPLAN_GPUS_OR_SKIP(backend, GroupTransport::kNative);
  if (backend->device_count() < 2) GTEST_SKIP() << "one GPU";
  for (const DevicePlan& each : DevicePlans()) {
    if (each.plan.device_count > backend->device_count()) continue;
    SCOPED_TRACE(each.name);
    ExpectParityOnGpus(*backend, each.plan, each.model, /*shares=*/false);
  }
}

// A model whose messages between stages have 8 MiB. NCCL ends a send of less than its buffers hold
// before anybody receives it, so small messages do not hang where large ones do. run.sh makes the
// buffers small for the same reason.
ModelSpec WideLlama() {
  const auto layer = [](LayerDefinition raw) {
    raw.hidden_size = 1024;
    raw.sequence_length = 2048;
    return *LayerDefinition::Create(raw, "layer");
  };
  return *ModelSpec::Create(
      "wide",
      {layer({.layer_definition_id = "embedding",
              .kind = LayerKind::kEmbedding,
              .vocabulary_size = 96}),
       layer({.layer_definition_id = "decoder",
              .kind = LayerKind::kDecoder,
              .attention_head_count = 8,
              .feed_forward_size = 1024,
              .feed_forward_kind = FeedForwardKind::kSwiglu}),
       layer({.layer_definition_id = "head", .kind = LayerKind::kHead, .vocabulary_size = 96})},
      {{0, 1}, {1, 2}, {2, 1}}, Precision::kFp32, Optimizer::kAdam);
}

// Makes as many steps as PARPLAN_GPU_STEPS says, 100 by default, and a tenth with large messages. A
// hang ends with the fabric's deadline.
TEST(GpuTraining, ManyStepsOfSeveralGpusDoNotHang) {
  PARPLAN_GPUS_OR_SKIP(backend, GroupTransport::kNative);
  const int count = backend->device_count();
  if (count < 2) GTEST_SKIP() << "one GPU";
  const char* const asked = std::getenv("PARPLAN_GPU_STEPS");
  const int steps = asked == nullptr ? 100 : std::atoi(asked);
  const ModelSpec model = SmallLlama(2);
  const Strategy tensor2{.tensor_parallel_degree = 2};
  Strategy both{.tensor_parallel_degree = 2, .data_parallel_degree = 2};
  both.sharding_level = ShardingLevel::kParameters;
  Strategy zero3{.data_parallel_degree = 2};
  zero3.sharding_level = ShardingLevel::kParameters;
  std::vector<Plan> plans = {PlanOf(model, 2, {4}, {tensor2}, kDevicePlanBatch, 2),
                             PlanOf(model, 2, {4}, {zero3}, kDevicePlanBatch, 2),
                             PlanOf(model, 2, {2, 2}, {Strategy()}, kDevicePlanBatch, 4)};
  plans.push_back(
      PlanOf(model, 2, {4}, {Strategy{.data_parallel_degree = 2}}, kDevicePlanBatch, 2));
  if (count >= 8) plans.push_back(PlanOf(model, 8, {2, 2}, {both}, kDevicePlanBatch, 4));
  const auto make_steps = [&](const Plan& plan, const ModelSpec& of, int step_count) {
    SCOPED_TRACE(PlanGist(plan));
    const DeviceRun run = RunOnDevices(
        plan, of, SgdSettings(),
        [&](int rank) { return OpenGpu(*backend, rank, ElementType::kBfloat16); }, step_count);
    EXPECT_EQ(run.losses.size(), static_cast<size_t>(step_count));
    EXPECT_TRUE(std::all_of(run.losses.begin(), run.losses.end(),
                            [](double loss) { return std::isfinite(loss); }));
  };
  for (const Plan& plan : plans) make_steps(plan, model, steps);
  const ModelSpec wide = WideLlama();
  make_steps(PlanOf(wide, 2, {2, 2}, {Strategy()}, kDevicePlanBatch, 4), wide,
             std::max(1, steps / 10));
}

}  // namespace
}  // namespace parplan
