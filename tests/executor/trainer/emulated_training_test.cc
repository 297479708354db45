// Whole training steps with the CUDA kernels, thread by thread on the processor: what comes out
// is that of fp64, as near as the type is.

#include <gtest/gtest.h>

#include <memory>

#include "executor/device/kernels/array_pool.h"
#include "executor/trainer/rank_trainer.h"
#include "executor/trainer/token_source.h"
#include "planner/cost/layer_memory.h"
#include "planner/program/rank_program.h"
#include "tests/executor/device/cuda/emulated_subject.h"
#include "tests/executor/trainer/device_parity.h"
#include "tests/executor/trainer/device_plans.h"
#include "tests/executor/trainer/device_run.h"
#include "tests/support/status_matchers.h"

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

// Sums of gradients have 32 bits, as the runtime's traits say.
TEST(EmulatedTraining, StatesOfSixteenBitsTakeWhatThePlannerPrices) {
  const ModelSpec model = SmallGpt(2);
  LayerMemory expected;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    const LayerFootprint footprint =
        FootprintOf(model.layer(layer), Precision::kBf16, ExecutorTraits(), Strategy(),
                    /*copies_tied_table=*/false);
    const LayerMemory memory = MemoryOfLayer(footprint, Precision::kBf16, Optimizer::kAdam,
                                             ExecutorTraits(), Strategy(), /*samples=*/1.0);
    expected.parameters += memory.parameters;
    expected.gradients += memory.gradients;
    expected.optimizer_states += memory.optimizer_states;
    expected.master_parameters += memory.master_parameters;
  }
  EmulatedDevice device(ElementType::kBfloat16);
  ArrayPool pool(device.memory());
  const std::unique_ptr<TokenSource> tokens =
      MakeSyntheticTokens(model.layer(0).vocabulary_size, /*seed=*/7);
  const Plan plan = SerialPlan(model);
  ASSERT_OK_AND_ASSIGN(const RankProgram program, RankProgram::Create(plan, model, /*rank=*/0));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RankTrainer> trainer,
                       RankTrainer::Create(program, model,
                                           {.kernels = &device.kernels(),
                                            .pool = &pool,
                                            .tokens = tokens.get(),
                                            .make_group = [](const GroupSpec&) {
                                              return absl::UnimplementedError("one rank");
                                            }}));
  ASSERT_OK(trainer->Step().status());
  EXPECT_EQ(pool.at_peak()[ArrayUse::kParameters], expected.parameters);
  EXPECT_EQ(pool.at_peak()[ArrayUse::kGradients], expected.gradients);
  EXPECT_EQ(pool.at_peak()[ArrayUse::kOptimizerStates], expected.optimizer_states);
  EXPECT_EQ(pool.at_peak()[ArrayUse::kMasterParameters], expected.master_parameters);
}

}  // namespace
}  // namespace parplan
