// Plans applied by ranks that are threads: a job goes on under another plan as if nothing had
// happened, and an error ends it everywhere.

#include "executor/apply/plan_applier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/apply/window_gather.h"
#include "tests/executor/apply/apply_cases.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/trainer/run_plan.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;
using State = PlanApplier::State;

constexpr int kStepsOfEach = 2;

// Objects that a rank needs in addition to its plan.
struct RankTools {
  explicit RankTools(JobFabric& fabric) {
    device = *backend->Open(0);
    setting = {.device = device.get(),
               .job = &fabric,
               .tokens = tokens.get(),
               .type = ElementType::kFloat64,
               .window_step_count = 1};
  }
  const std::unique_ptr<DeviceBackend> backend = MakeCpuBackend();
  std::unique_ptr<Device> device;
  const std::unique_ptr<TokenSource> tokens = MakeSyntheticTokens(96, 7);
  ApplierSetting setting;
};

// The state of all ranks at the end.
RunOutcome Train(const std::vector<CheckedPlan>& plans) {
  std::vector<RankPart> parts(plans[0].plan().device_count);
  RunRanks(plans[0].plan().device_count, {.spin_count = 50}, [&](JobFabric& fabric) {
    RankTools tools(fabric);
    PlanApplier applier(plans[0], tools.setting);
    RankPart part;
    // An error at one rank comes to all of them, so none waits for another that has left.
    absl::Status status = applier.Prepare();
    for (size_t k = 0; k < plans.size() && status.ok(); ++k) {
      if (k > 0) status = applier.Swap(plans[k]);
      for (int step = 0; step < kStepsOfEach && status.ok(); ++step) {
        const absl::StatusOr<double> loss = applier.Step();
        status = loss.status();
        if (loss.ok()) part.losses.push_back(*loss);
      }
    }
    if (status.ok()) {
      const std::unique_ptr<LayerKernels> kernels = MakeCpuKernels(ElementType::kFloat64);
      absl::StatusOr<std::vector<RankPart::Piece>> pieces = PiecesOf(*applier.trainer(), *kernels);
      status = pieces.status();
      if (pieces.ok()) part.pieces = *std::move(pieces);
    }
    if (status.ok()) status = applier.Teardown();
    EXPECT_OK(status);
    parts[fabric.rank()] = std::move(part);
  });
  return PutTogether(parts);
}

// A device whose libraries take memory when kernels and groups are made.
class FillingDevice : public Device {
 public:
  explicit FillingDevice(Device& inner) : inner_(inner) {}
  absl::StatusOr<std::unique_ptr<LayerKernels>> MakeKernels(ElementType type) override {
    context_ += Bytes::Of(10);
    return inner_.MakeKernels(type);
  }
  DeviceMemory& memory() override { return inner_.memory(); }
  std::unique_ptr<Stopwatch> MakeStopwatch() override { return inner_.MakeStopwatch(); }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(RankContext& job, const std::string& name,
                                                          const std::vector<int>& ranks) override {
    context_ += Bytes::Of(100);
    return inner_.MakeGroup(job, name, ranks);
  }
  absl::Status CopyFromHost(const void* host, void* device, Bytes size) override {
    return inner_.CopyFromHost(host, device, size);
  }
  absl::Status CopyToHost(const void* device, void* host, Bytes size) override {
    return inner_.CopyToHost(device, host, size);
  }
  absl::Status Synchronize() override { return inner_.Synchronize(); }
  absl::StatusOr<DeviceMemoryUse> MemoryUse() override {
    return DeviceMemoryUse{.context = context_};
  }
  absl::Status ResetMemoryPeak() override { return inner_.ResetMemoryPeak(); }

 private:
  Device& inner_;
  Bytes context_ = Bytes::Of(1);
};

// On GPUs kernels, libraries and communicators take memory that the open device does not.
TEST(PlanApplier, WindowsOfAnAsynchronousDeviceHaveTheMemoryOfWhatAPlanUses) {
  const ModelSpec model = SmallGpt(6);
  const CheckedPlan plan =
      CheckedFrom(PlanOf(model, 2, {8}, {{.data_parallel_degree = 2}}, kAppliedBatch, 2), model);
  for (const bool is_asynchronous : {false, true}) {
    RunRanks(2, {.spin_count = 50}, [&](JobFabric& fabric) {
      RankTools tools(fabric);
      FillingDevice device(*tools.device);
      tools.setting.device = &device;
      tools.setting.context_memory = Bytes::Of(1);
      tools.setting.is_asynchronous = is_asynchronous;
      PlanApplier applier(plan, tools.setting);
      ASSERT_OK(applier.Prepare());
      ASSERT_OK(applier.Step().status());
      const std::optional<StepWindow> window = applier.TakeWindow();
      ASSERT_TRUE(window.has_value());
      if (is_asynchronous) {
        // Kernels, and at least the groups of gradients and of the loss.
        EXPECT_GE(window->context_memory, Bytes::Of(1 + 10 + 2 * 100));
      } else {
        EXPECT_EQ(window->context_memory, Bytes::Of(1));
      }
      ASSERT_OK(applier.Teardown());
    });
  }
}

struct SwapCase {
  std::string name;
  int ranks;
  std::vector<Plan> (*plans)(const ModelSpec& model);
  ModelSpec (*model)(int layers, bool is_tied) = &SmallGpt;
  bool is_tied = false;
};

std::vector<SwapCase> SwapCases() {
  return {
      {"DataToTensor", 2,
       [](const ModelSpec& m) -> std::vector<Plan> {
         return {PlanOf(m, 2, {8}, {{.data_parallel_degree = 2}}, kAppliedBatch, 2),
                 PlanOf(m, 2, {8}, {{.tensor_parallel_degree = 2}}, kAppliedBatch, 3)};
       }},
      {"PipelineToShardsAndBack", 2,
       [](const ModelSpec& m) -> std::vector<Plan> {
         return {PlanOf(m, 2, {3, 5}, {{}}, kAppliedBatch, 4),
                 PlanOf(m, 2, {8}, {{.data_parallel_degree = 2, .sharding_level = kZero3}},
                        kAppliedBatch, 1),
                 PlanOf(m, 2, {5, 3}, {{}}, kAppliedBatch, 2)};
       }},
      {"ShardedStatesToTensor", 3,
       [](const ModelSpec& m) -> std::vector<Plan> {
         return {PlanOf(m, 3, {8}, {{.data_parallel_degree = 3, .sharding_level = kZero1}},
                        kAppliedBatch, 1),
                 PlanOf(m, 3, {8}, {{.tensor_parallel_degree = 3, .sequence_parallel = true}},
                        kAppliedBatch, 1)};
       }},
      {"SharedTable", 2,
       [](const ModelSpec& m) -> std::vector<Plan> {
         return {PlanOf(m, 2, {8}, {{.tensor_parallel_degree = 2}}, kAppliedBatch, 1),
                 PlanOf(m, 2, {4, 4}, {{}}, kAppliedBatch, 2),
                 PlanOf(m, 2, {8}, {{.data_parallel_degree = 2}}, kAppliedBatch, 2)};
       },
       &SmallGpt, true},
      {"LayersOfAllKinds", 4,
       [](const ModelSpec& m) -> std::vector<Plan> {
         return {PlanOf(m, 4, {4, 4}, StrategiesOf(2), kAppliedBatch, 2),
                 PlanOf(m, 4, {8}, StrategiesOf(4), kAppliedBatch, 1)};
       }},
  };
}

class Swaps : public ::testing::TestWithParam<SwapCase> {};

TEST_P(Swaps, GoOnAsOneRankAloneWould) {
  const ModelSpec model = GetParam().model(6, GetParam().is_tied);
  std::vector<CheckedPlan> plans;
  for (const Plan& plan : GetParam().plans(model)) plans.push_back(CheckedFrom(plan, model));
  const RunOutcome swapped = Train(plans);
  EXPECT_TRUE(swapped.ranks_agree);
  // The one rank makes all its steps under one plan.
  RunOptions alone;
  alone.step_count = kStepsOfEach * static_cast<int>(plans.size());
  const RunOutcome serial = RunSerially(plans[0].plan(), model, alone);
  EXPECT_EQ(swapped.losses.size(), static_cast<size_t>(alone.step_count));
  EXPECT_LE(DifferenceOf(swapped, serial, ElementType::kFloat64), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(All, Swaps, ::testing::ValuesIn(SwapCases()),
                         [](const auto& info) { return info.param.name; });

TEST(PlanApplier, GoesThroughItsStates) {
  const ModelSpec model = SmallGpt(1);
  const CheckedPlan plan = CheckedFrom(PlanOf(model, 1, {3}, {{}}, 2, 1), model);
  RunRanks(1, {}, [&](JobFabric& fabric) {
    RankTools tools(fabric);
    PlanApplier applier(plan, tools.setting);
    EXPECT_EQ(applier.state(), State::kVerified);
    EXPECT_EQ(applier.Step().status().code(), absl::StatusCode::kFailedPrecondition);
    ASSERT_OK(applier.Prepare());
    EXPECT_EQ(applier.state(), State::kPrepared);
    EXPECT_FALSE(applier.TakeWindow().has_value());
    ASSERT_OK(applier.Step().status());
    EXPECT_EQ(applier.state(), State::kRunning);
    const std::optional<StepWindow> window = applier.TakeWindow();
    ASSERT_TRUE(window.has_value());
    EXPECT_GT((*window)[StepPhase::kForward], absl::ZeroDuration());
    EXPECT_GT(window->memory_at_peak[ArrayUse::kParameters], Bytes());
    ASSERT_OK(applier.Teardown());
    EXPECT_EQ(applier.state(), State::kDone);
    EXPECT_EQ(applier.Swap(plan).code(), absl::StatusCode::kFailedPrecondition);
  });
}

TEST(PlanApplier, RefusesAnOlderPlanAndOneOfAnotherBatchAndGoesOn) {
  const ModelSpec model = SmallGpt(1);
  const Plan plan = PlanOf(model, 1, {3}, {{}}, 2, 1);
  const CheckedPlan second = CheckedFrom(plan, model, 2);
  RunRanks(1, {}, [&](JobFabric& fabric) {
    RankTools tools(fabric);
    PlanApplier applier(second, tools.setting);
    ASSERT_OK(applier.Prepare());
    for (const int64_t older : {0, 1}) {
      EXPECT_THAT(applier.Swap(CheckedFrom(plan, model, older)),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("generation")));
    }
    EXPECT_THAT(applier.Swap(CheckedFrom(PlanOf(model, 1, {3}, {{}}, 4, 1), model, 3)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("global_batch_size")));
    EXPECT_OK(applier.Step().status());
    EXPECT_OK(applier.Swap(second));
    EXPECT_OK(applier.Swap(CheckedFrom(plan, model, 3)));
    EXPECT_OK(applier.Step().status());
  });
}

TEST(PlanApplier, RefusesAPlanOfAnotherModelAndGoesOn) {
  const ModelSpec model = SmallGpt(1);
  const ModelSpec other = SmallGpt(2);
  const CheckedPlan plan = CheckedFrom(PlanOf(model, 1, {3}, {{}}, 2, 1), model);
  const CheckedPlan of_other = CheckedFrom(PlanOf(other, 1, {4}, {{}}, 2, 1), other);
  RunRanks(1, {}, [&](JobFabric& fabric) {
    RankTools tools(fabric);
    PlanApplier applier(plan, tools.setting);
    ASSERT_OK(applier.Prepare());
    EXPECT_THAT(applier.Swap(of_other),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("model_digest")));
    EXPECT_OK(applier.Step().status());
  });
}

TEST(PlanApplier, RefusesAJobOfAnotherSize) {
  const ModelSpec model = SmallGpt(1);
  const CheckedPlan plan =
      CheckedFrom(PlanOf(model, 2, {3}, {{.data_parallel_degree = 2}}, 2, 1), model);
  RunRanks(1, {}, [&](JobFabric& fabric) {
    RankTools tools(fabric);
    PlanApplier applier(plan, tools.setting);
    EXPECT_THAT(applier.Prepare(),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("device_count")));
    EXPECT_EQ(applier.state(), State::kFailed);
  });
}

TEST(PlanApplier, AnErrorOfOneRankIsTheErrorOfAll) {
  const ModelSpec model = SmallGpt(1);
  const CheckedPlan plan =
      CheckedFrom(PlanOf(model, 2, {3}, {{.data_parallel_degree = 2}}, 2, 1), model);
  RunRanks(2, {.spin_count = 50}, [&](JobFabric& fabric) {
    RankTools tools(fabric);
    PlanApplier applier(plan, tools.setting);
    const absl::Status prepared = applier.Prepare();
    if (fabric.rank() == 1) {
      applier.Abort("out of apples");
      EXPECT_EQ(applier.state(), State::kFailed);
      return;
    }
    // Rank 1 may end the job before this one is ready.
    absl::Status status = prepared;
    while (status.ok()) status = applier.Step().status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted, HasSubstr("out of apples")));
    EXPECT_EQ(applier.Step().status(), status);
    EXPECT_EQ(applier.failure(), status);
  });
}

TEST(GatherWindows, BringsThoseOfAllRanks) {
  RunRanks(3, {.spin_count = 50}, [](JobFabric& fabric) {
    absl::StatusOr<std::unique_ptr<Communicator>> everyone = fabric.MakeGroup("all", {0, 1, 2});
    ASSERT_OK(everyone.status());
    StepWindow own = {.rank = fabric.rank(), .first_step = 5, .step_count = 2};
    own.median_step = absl::Seconds(fabric.rank());
    for (int k = 0; k < fabric.rank(); ++k) {
      own.collectives.push_back({.message_size = k, .median = absl::Seconds(1)});
    }
    const auto windows = GatherWindows(WindowToProto(own), **everyone);
    ASSERT_OK(windows.status());
    ASSERT_EQ(windows->size(), 3u);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ((*windows)[rank].rank(), rank);
      EXPECT_EQ((*windows)[rank].median_step_duration().seconds(), rank);
      EXPECT_EQ((*windows)[rank].collective_timings_size(), rank);
    }
  });
}

}  // namespace
}  // namespace parplan
