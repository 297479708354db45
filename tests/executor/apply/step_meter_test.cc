#include "executor/apply/step_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/executor/device/kernels/wrapped_kernels.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kMillisecond = absl::Milliseconds(1);

// A clock that moves only when a test advances it.
struct FakeClock {
  absl::Duration now;
  void Pass(absl::Duration time) { now += time; }
};

class FakeWork : public PendingWork {
 public:
  explicit FakeWork(FakeClock& clock, absl::Duration time) : clock_(clock), time_(time) {}
  absl::Status Wait() override {
    clock_.Pass(time_);
    return absl::OkStatus();
  }
  bool IsDone() override { return true; }

 private:
  FakeClock& clock_;
  const absl::Duration time_;
};

// Every operation takes so long.
class FakeGroup : public Communicator {
 public:
  FakeGroup(FakeClock& clock, absl::Duration time) : clock_(clock), time_(time) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  const std::string& name() const override { return name_; }
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall&) override {
    return std::make_unique<FakeWork>(clock_, time_);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int, int) override { return nullptr; }
  void Abort(absl::string_view) override {}
  CommunicatorStats Stats() const override { return {}; }

 private:
  FakeClock& clock_;
  const absl::Duration time_;
  const std::string name_ = "fake";
};

class StepMeterTest : public ::testing::Test {
 protected:
  StepMeterTest()
      : memory_(MakeHostMemory()),
        pool_(*memory_),
        meter_({.rank = 3, .window_step_count = 2, .now = [this] { return clock_.now; }}, pool_) {}

  std::unique_ptr<Communicator> Group(const std::string& purpose, int milliseconds) {
    return meter_.Meter(purpose, {0, 4},
                        std::make_unique<FakeGroup>(clock_, milliseconds * kMillisecond));
  }
  void Compute(TrainerPhase phase, int milliseconds) {
    meter_.Enter(phase, 0);
    clock_.Pass(milliseconds * kMillisecond);
  }

  FakeClock clock_;
  std::unique_ptr<DeviceMemory> memory_;
  ArrayPool pool_;
  StepMeter meter_;
};

TEST_F(StepMeterTest, SeparatesComputingFromWaitingByGroup) {
  const auto tensor = Group("tensor", 2);
  const auto gradient = Group("gradient", 3);
  const auto stages = Group("forward 0", 5);
  std::optional<StepWindow> window;
  for (int step = 7; step < 9; ++step) {
    meter_.BeginStep(step);
    float x = 0;
    Compute(TrainerPhase::kReceive, 1);
    ASSERT_OK(stages->Broadcast(ElementType::kFloat32, &x, 1, 0));
    Compute(TrainerPhase::kForward, 10);
    ASSERT_OK(tensor->AllReduce(ElementType::kFloat32, &x, 1));
    ASSERT_OK(gradient->AllReduce(ElementType::kFloat32, &x, 1));
    Compute(TrainerPhase::kRecompute, 11);
    Compute(TrainerPhase::kBackward, 20);
    ASSERT_OK(tensor->AllReduce(ElementType::kFloat32, &x, 1));
    Compute(TrainerPhase::kGradientSync, 0);
    // Parameters that tensor-parallel ranks all have are added up here too.
    ASSERT_OK(tensor->AllReduce(ElementType::kFloat32, &x, 1));
    ASSERT_OK(gradient->AllReduce(ElementType::kFloat32, &x, 1));
    Compute(TrainerPhase::kOptimizer, 6);
    ASSERT_OK(gradient->AllReduce(ElementType::kFloat32, &x, 1));
    Compute(TrainerPhase::kLoss, 1);
    meter_.Enter(TrainerPhase::kOutside, -1);
    clock_.Pass(kMillisecond);
    window = meter_.EndStep();
  }
  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(window->rank, 3);
  EXPECT_EQ(window->first_step, 7);
  EXPECT_EQ(window->step_count, 2);
  const StepWindow& w = *window;
  EXPECT_EQ(w[StepPhase::kForward], 10 * kMillisecond);
  EXPECT_EQ(w[StepPhase::kRecompute], 11 * kMillisecond);
  EXPECT_EQ(w[StepPhase::kBackward], 20 * kMillisecond);
  EXPECT_EQ(w[StepPhase::kTensorParallel], 4 * kMillisecond);
  EXPECT_EQ(w[StepPhase::kShardedDataParallel], 3 * kMillisecond);
  EXPECT_EQ(w[StepPhase::kPipeline], 6 * kMillisecond);
  EXPECT_EQ(w[StepPhase::kGradientSync], 5 * kMillisecond);
  EXPECT_EQ(w[StepPhase::kOptimizer], 9 * kMillisecond);
  EXPECT_EQ(w[StepPhase::kIdle], 2 * kMillisecond);
  // Nothing is lost and nothing counts twice.
  absl::Duration sum;
  for (const absl::Duration phase : w.phases) sum += phase;
  EXPECT_EQ(w.median_step, sum);
}

// A device that computes while the host waits: calls take no time, `Synchronize` all that was
// queued before it.
class AsynchronousKernels : public WrappedKernels {
 public:
  explicit AsynchronousKernels(FakeClock& clock)
      : WrappedKernels(MakeCpuKernels(ElementType::kFloat32)), clock_(clock) {}
  void Queue(absl::Duration time) { queued_ += time; }
  absl::Status Synchronize() override {
    clock_.Pass(std::exchange(queued_, absl::ZeroDuration()));
    ++synchronize_count;
    return absl::OkStatus();
  }
  int synchronize_count = 0;

 private:
  FakeClock& clock_;
  absl::Duration queued_;
};

class QueuedGroup : public FakeGroup {
 public:
  QueuedGroup(FakeClock& clock, AsynchronousKernels& kernels, absl::Duration time)
      : FakeGroup(clock, absl::ZeroDuration()), kernels_(kernels), time_(time) {}
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override {
    kernels_.Queue(time_);
    return FakeGroup::Start(call);
  }

 private:
  AsynchronousKernels& kernels_;
  const absl::Duration time_;
};

TEST_F(StepMeterTest, LayersOfAnAsynchronousDeviceAreTimedWithoutTheirCollectives) {
  AsynchronousKernels kernels(clock_);
  StepMeter meter(
      {.window_step_count = 2, .kernels = &kernels, .now = [this] { return clock_.now; }}, pool_);
  const auto tensor = meter.Meter("tensor", {0, 1},
                                  std::make_unique<QueuedGroup>(clock_, kernels, 4 * kMillisecond));
  std::optional<StepWindow> window;
  for (int step = 0; step < 2; ++step) {
    meter.BeginStep(step);
    float x = 0;
    meter.Enter(TrainerPhase::kForward, 0);
    kernels.Queue(10 * kMillisecond);
    ASSERT_OK(tensor->AllReduce(ElementType::kFloat32, &x, 1));
    kernels.Queue(5 * kMillisecond);
    meter.Enter(TrainerPhase::kBackward, 0);
    kernels.Queue(20 * kMillisecond);
    ASSERT_OK(tensor->AllReduce(ElementType::kFloat32, &x, 1));
    meter.Enter(TrainerPhase::kOutside, -1);
    // Only the first step of a window waits for the device.
    if (step == 0) kernels.synchronize_count = 0;
    window = meter.EndStep();
  }
  EXPECT_EQ(kernels.synchronize_count, 0);
  ASSERT_TRUE(window.has_value());
  EXPECT_EQ((*window)[StepPhase::kForward], 15 * kMillisecond);
  EXPECT_EQ((*window)[StepPhase::kBackward], 20 * kMillisecond);
  EXPECT_EQ((*window)[StepPhase::kTensorParallel], 8 * kMillisecond);
}

TEST_F(StepMeterTest, PendingWorkCountsWhereItIsWaitedFor) {
  const auto gradient = Group("gradient", 3);
  float x = 0;
  meter_.BeginStep(0);
  Compute(TrainerPhase::kBackward, 10);
  ASSERT_OK_AND_ASSIGN(
      const auto work,
      gradient->Start({.operation = Operation::kAllReduce, .count = 1, .send = &x, .receive = &x}));
  Compute(TrainerPhase::kGradientSync, 0);
  ASSERT_OK(work->Wait());
  meter_.EndStep();
  const std::optional<StepWindow> window = meter_.Flush();
  ASSERT_TRUE(window.has_value());
  EXPECT_EQ((*window)[StepPhase::kBackward], 10 * kMillisecond);
  EXPECT_EQ((*window)[StepPhase::kGradientSync], 3 * kMillisecond);
  // Its duration is unknown.
  EXPECT_TRUE(window->collectives.empty());
}

TEST_F(StepMeterTest, CollectivesAreToldBySizeAndShape) {
  const auto tensor = Group("tensor", 2);
  std::vector<float> x(8);
  meter_.BeginStep(0);
  Compute(TrainerPhase::kForward, 1);
  for (int k = 0; k < 3; ++k) ASSERT_OK(tensor->AllReduce(ElementType::kFloat32, x.data(), 8));
  ASSERT_OK(tensor->AllGather(ElementType::kFloat32, x.data(), x.data(), 4));
  ASSERT_OK(tensor->Barrier());
  meter_.EndStep();
  const std::optional<StepWindow> window = meter_.Flush();
  ASSERT_TRUE(window.has_value());
  EXPECT_THAT(window->collectives, ElementsAre(CollectiveSamples{.operation = Operation::kAllReduce,
                                                                 .participant_count = 2,
                                                                 .rank_stride = 4,
                                                                 .message_size = 32,
                                                                 .median = 2 * kMillisecond,
                                                                 .p90 = 2 * kMillisecond,
                                                                 .sample_count = 3},
                                               CollectiveSamples{.operation = Operation::kAllGather,
                                                                 .participant_count = 2,
                                                                 .rank_stride = 4,
                                                                 .message_size = 32,
                                                                 .median = 2 * kMillisecond,
                                                                 .p90 = 2 * kMillisecond,
                                                                 .sample_count = 1}));
}

TEST_F(StepMeterTest, MemoryIsThatOfTheWindow) {
  const auto use = [&](int64_t size) {
    EXPECT_OK(pool_.Take(ArrayUse::kActivations, Bytes::Of(size)).status());
  };
  const Array parameters = *pool_.Take(ArrayUse::kParameters, Bytes::Of(1000));
  use(5000);
  for (int step = 0; step < 2; ++step) {
    meter_.BeginStep(step);
    use(400);
    const std::optional<StepWindow> window = meter_.EndStep();
    if (step == 0) continue;
    ASSERT_TRUE(window.has_value());
    EXPECT_EQ(window->peak_memory(), Bytes::Of(1400));
    EXPECT_EQ(window->memory_at_peak[ArrayUse::kActivations], Bytes::Of(400));
  }
}

TEST_F(StepMeterTest, NothingIsAWindowOfNothing) {
  EXPECT_FALSE(meter_.Flush().has_value());
  meter_.BeginStep(0);
  clock_.Pass(kMillisecond);
  EXPECT_FALSE(meter_.EndStep().has_value());
  EXPECT_TRUE(meter_.Flush().has_value());
  EXPECT_FALSE(meter_.Flush().has_value());
}

TEST(WindowToProto, HasTimesAndItems) {
  StepWindow window = {
      .rank = 1, .first_step = 20, .step_count = 10, .median_step = absl::Milliseconds(1500)};
  window.phases[static_cast<int>(StepPhase::kBackward)] = absl::Milliseconds(800);
  window.memory_at_peak.bytes[static_cast<int>(ArrayUse::kLogits)] = Bytes::Of(77);
  window.collectives = {{.operation = Operation::kReduceScatter, .median = absl::Microseconds(9)},
                        {.operation = Operation::kSend, .median = absl::Microseconds(9)}};
  window.context_memory = Bytes::Of(23);
  const v1::MeasuredWindow message = WindowToProto(window);
  EXPECT_EQ(message.median_step_duration().seconds(), 1);
  EXPECT_EQ(message.median_step_duration().nanos(), 500000000);
  ASSERT_EQ(message.phase_durations_size(), 1);
  EXPECT_EQ(message.phase_durations(0).phase(), v1::PHASE_BACKWARD);
  ASSERT_EQ(message.memory_items_size(), 2);
  EXPECT_EQ(message.memory_items(0).kind(), v1::MEMORY_ITEM_KIND_LOGITS);
  EXPECT_EQ(message.memory_items(1).kind(), v1::MEMORY_ITEM_KIND_CONTEXT);
  EXPECT_EQ(message.peak_memory_bytes(), 100);
  ASSERT_EQ(message.collective_timings_size(), 1);
  EXPECT_EQ(message.collective_timings(0).collective(), v1::COLLECTIVE_REDUCE_SCATTER);
  EXPECT_EQ(StepPhaseName(StepPhase::kTensorParallel), "tensor_parallel");
}

}  // namespace
}  // namespace parplan
