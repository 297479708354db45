// Plans on one GPU, which all their ranks share: what comes out is that of fp64 on the
// processor, as near as the type is. Groups go through the host.

#include <gtest/gtest.h>

#include "tests/executor/device/cuda/gpu.h"
#include "tests/executor/trainer/device_parity.h"
#include "tests/executor/trainer/device_plans.h"
#include "tests/executor/trainer/device_run.h"

namespace parplan {
namespace {

class SharedGpu : public RankDevice {
 public:
  SharedGpu(std::unique_ptr<Device> device, std::unique_ptr<LayerKernels> kernels)
      : device_(std::move(device)), kernels_(std::move(kernels)) {}
  LayerKernels& kernels() override { return *kernels_; }
  DeviceMemory& memory() override { return device_->memory(); }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(JobFabric& fabric,
                                                          const std::string& name,
                                                          const std::vector<int>& ranks) override {
    return device_->MakeGroup(fabric, name, ranks);
  }

 private:
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<LayerKernels> kernels_;
};

std::unique_ptr<RankDevice> OpenGpu(DeviceBackend& backend, ElementType type) {
  absl::StatusOr<std::unique_ptr<Device>> device = backend.Open(0);
  if (!device.ok()) return nullptr;
  absl::StatusOr<std::unique_ptr<LayerKernels>> kernels = (*device)->MakeKernels(type);
  if (!kernels.ok()) return nullptr;
  return std::make_unique<SharedGpu>(*std::move(device), *std::move(kernels));
}

void ExpectParityOnGpu(DeviceBackend& backend, const Plan& plan, const ModelSpec& model) {
  const SgdSettings optimizer;
  const DeviceRun exact = RunOnDevices(SerialPlan(model), model, optimizer,
                                       [](int) { return MakeNearDevice(ElementType::kFloat64); });
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    const DeviceRun run =
        RunOnDevices(plan, model, optimizer, [&](int) { return OpenGpu(backend, type); });
    ExpectParity(run, exact, type == ElementType::kFloat32 ? 1e-5 : 1e-2);
  }
}

TEST(GpuTraining, OneRank) {
  PARPLAN_GPUS_OR_SKIP(backend);
  for (const ModelSpec& model : {SmallGpt(2), SmallLlama(2)}) {
    ExpectParityOnGpu(*backend, SerialPlan(model), model);
  }
}

TEST(GpuTraining, RanksOfOneGpu) {
  PARPLAN_GPUS_OR_SKIP(backend, GroupTransport::kStaged);
  for (const DevicePlan& each : DevicePlans()) {
    SCOPED_TRACE(each.name);
    ExpectParityOnGpu(*backend, each.plan, each.model);
  }
}

}  // namespace
}  // namespace parplan
