#include "tests/executor/trainer/device_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "executor/device/kernels/host_elements.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

void RunRank(JobFabric& fabric, RankDevice& device, const Plan& plan, const ModelSpec& model,
             const OptimizerSettings& optimizer, int step_count, std::mutex& mutex,
             DeviceRun& run) {
  ArrayPool pool(device.memory());
  const std::unique_ptr<TokenSource> tokens = MakeSyntheticTokens(96, 7);
  ASSERT_OK_AND_ASSIGN(const RankProgram program, RankProgram::Create(plan, model, fabric.rank()));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RankTrainer> trainer,
                       RankTrainer::Create(program, model,
                                           {.kernels = &device.kernels(),
                                            .pool = &pool,
                                            .tokens = tokens.get(),
                                            .make_group =
                                                [&](const GroupSpec& group) {
                                                  return device.MakeGroup(fabric, group.purpose,
                                                                          group.ranks);
                                                },
                                            .optimizer = optimizer,
                                            .communicates_ahead = device.communicates_ahead(),
                                            .rehearses = device.communicates_ahead()}));
  std::vector<double> losses;
  for (int step = 0; step < step_count; ++step) {
    ASSERT_OK_AND_ASSIGN(const double loss, trainer->Step());
    losses.push_back(loss);
  }
  ASSERT_OK(
      trainer->VisitParameters([&](int layer, const ParameterTensor& tensor, const void* data) {
        const absl::StatusOr<std::vector<double>> part =
            ReadElements(device.kernels(), device.kernels().type(), data, tensor.local_size());
        ASSERT_OK(part.status());
        const std::lock_guard<std::mutex> lock(mutex);
        std::vector<double>& whole = run.parameters[{layer, tensor.name}];
        whole.resize(tensor.row_count * tensor.column_count, std::nan(""));
        for (int64_t i = 0; i < tensor.local_size(); ++i) {
          const int64_t row = tensor.first_row + i / tensor.local_column_count;
          const int64_t column = tensor.first_column + i % tensor.local_column_count;
          whole[row * tensor.column_count + column] = (*part)[i];
        }
      }));
  const std::lock_guard<std::mutex> lock(mutex);
  if (run.losses.empty()) run.losses = losses;
  EXPECT_EQ(run.losses, losses);
}

class NearDevice : public RankDevice {
 public:
  explicit NearDevice(ElementType type) : kernels_(MakeCpuKernels(type)) {}
  LayerKernels& kernels() override { return *kernels_; }
  DeviceMemory& memory() override { return *memory_; }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(JobFabric& fabric,
                                                          const std::string& name,
                                                          const std::vector<int>& ranks) override {
    return fabric.MakeGroup(name, ranks);
  }

 private:
  const std::unique_ptr<LayerKernels> kernels_;
  const std::unique_ptr<DeviceMemory> memory_ = MakeHostMemory();
};

}  // namespace

DeviceRun RunOnDevices(const Plan& plan, const ModelSpec& model, const OptimizerSettings& optimizer,
                       const std::function<std::unique_ptr<RankDevice>(int rank)>& make,
                       int step_count) {
  DeviceRun run;
  std::mutex mutex;
  RunRanks(plan.device_count, {.spin_count = 50}, [&](JobFabric& fabric) {
    const std::unique_ptr<RankDevice> device = make(fabric.rank());
    if (device == nullptr) {
      // Others would wait for this rank.
      fabric.Abort("a rank has no device");
      FAIL() << "rank " << fabric.rank() << " has no device";
    }
    RunRank(fabric, *device, plan, model, optimizer, step_count, mutex, run);
    if (testing::Test::HasFatalFailure()) fabric.Abort("a rank has failed");
  });
  return run;
}

std::unique_ptr<RankDevice> MakeNearDevice(ElementType type) {
  return std::make_unique<NearDevice>(type);
}

}  // namespace parplan
