// Whole training steps with the CUDA kernels, thread by thread on the processor: what comes out
// is that of fp64, as near as the type is.

#include <gtest/gtest.h>

#include "tests/executor/device/cuda/emulated_subject.h"
#include "tests/executor/trainer/device_parity.h"
#include "tests/executor/trainer/device_plans.h"
#include "tests/executor/trainer/device_run.h"

namespace parplan {
namespace {

class EmulatedDevice : public RankDevice {
 public:
  explicit EmulatedDevice(ElementType type)
      : subject_(MakeEmulatedKernels(type, /*reverses=*/false)) {}
  LayerKernels& kernels() override { return subject_->kernels(); }
  DeviceMemory& memory() override { return subject_->memory(); }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(JobFabric& fabric,
                                                          const std::string& name,
                                                          const std::vector<int>& ranks) override {
    return fabric.MakeGroup(name, ranks);
  }

 private:
  const std::unique_ptr<KernelSubject> subject_;
};

// One rank: the emulation has one thread of the process at a time.
void ExpectTraining(const ModelSpec& model, ElementType type, double tolerance) {
  const Plan plan = SerialPlan(model);
  // Momentum follows the gradients, where Adam makes full steps of what rounding leaves.
  const SgdSettings optimizer;
  const DeviceRun exact = RunOnDevices(plan, model, optimizer,
                                       [](int) { return MakeNearDevice(ElementType::kFloat64); });
  const DeviceRun run = RunOnDevices(plan, model, optimizer,
                                     [&](int) { return std::make_unique<EmulatedDevice>(type); });
  ExpectParity(run, exact, tolerance);
}

TEST(EmulatedTraining, GptInSinglePrecision) {
  ExpectTraining(SmallGpt(2), ElementType::kFloat32, 1e-5);
}

TEST(EmulatedTraining, LlamaInSinglePrecision) {
  ExpectTraining(SmallLlama(2), ElementType::kFloat32, 1e-5);
}

TEST(EmulatedTraining, GptInSixteenBits) {
  ExpectTraining(SmallGpt(2), ElementType::kBfloat16, 5e-3);
}

TEST(EmulatedTraining, LlamaInSixteenBits) {
  ExpectTraining(SmallLlama(2), ElementType::kBfloat16, 5e-3);
}

}  // namespace
}  // namespace parplan
