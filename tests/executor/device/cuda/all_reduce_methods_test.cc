// The two ways to time an all-reduce, over the fakes of CUDA and NCCL, which count what is called.

#include "tests/gpu/all_reduce_methods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "executor/device/cuda/cuda_device.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/support/status_matchers.h"

namespace parplan::cuda {
namespace {

using AllReduceMethod = absl::StatusOr<absl::Duration>(const AllReduceRank&, int64_t);

// Returns the times that two ranks get.
std::vector<absl::Duration> TimesOfTwo(AllReduceMethod* method) {
  ResetFakes();
  std::vector<absl::Duration> times(2);
  RunRanks(2, {.spin_count = 50}, [&](JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(const auto device,
                         CudaDevice::Open(fabric.rank(), GroupTransport::kNative));
    ASSERT_OK_AND_ASSIGN(const auto control, fabric.MakeGroup("control", {0, 1}));
    ASSERT_OK_AND_ASSIGN(times[fabric.rank()], method({.job = &fabric,
                                                       .device = device.get(),
                                                       .control = control.get(),
                                                       .device_index = fabric.rank()},
                                                      8192));
  });
  EXPECT_EQ(TheFakeNccl().made, 2);
  EXPECT_EQ(TheFakeNccl().ended, 2);
  EXPECT_EQ(TheFakeNccl().aborted, 0);
  return times;
}

// As `all_reduce_perf -w 5 -n 20`, nine times.
TEST(AllReduceMethods, NcclTestsQueuesAllOperationsBetweenTwoWaits) {
  const std::vector<absl::Duration> times = TimesOfTwo(TimeAsNcclTests);
  EXPECT_EQ(times[0], times[1]);
  EXPECT_GT(times[0], absl::ZeroDuration());
  EXPECT_EQ(TheFakeNccl().operations, 2 * (5 + 9 * 20));
  // Two for each round, and those of a stream's and a device's end.
  EXPECT_LE(TheFakeCuda().host_waits, 2 * (9 * 2 + 8));
}

TEST(AllReduceMethods, TheProbeQueuesItsOperationsToo) {
  const std::vector<absl::Duration> times = TimesOfTwo(TimeAsProbe);
  EXPECT_EQ(times[0], times[1]);
  // Each sample takes a millisecond by the fake's stopwatch.
  EXPECT_THAT(absl::ToDoubleMicroseconds(times[0]),
              testing::AllOf(testing::Gt(1.0), testing::Le(1000.0)));
  EXPECT_GT(TheFakeNccl().operations, 2 * 8);
}

TEST(AllReduceMethods, MoreThanATenthAboveTheOtherIsAFailure) {
  AllReduceTimes times = {.ranks = 8,
                          .message_bytes = 8192,
                          .nccl_tests = absl::Microseconds(20),
                          .probe = absl::Microseconds(22)};
  EXPECT_OK(CheckRatio(times));
  times.probe = absl::Nanoseconds(22100);
  EXPECT_THAT(CheckRatio(times),
              StatusIs(absl::StatusCode::kOutOfRange,
                       testing::AllOf(testing::HasSubstr("22.10 us by the probe and 20.00 us"),
                                      testing::HasSubstr("8192 bytes"))));
  const nlohmann::json told = nlohmann::json::parse(ToJson(times));
  EXPECT_EQ(told["ranks"], 8);
  EXPECT_EQ(told["message_bytes"], 8192);
  EXPECT_EQ(told["nccl_tests_us"], 20.0);
  EXPECT_EQ(told["probe_us"], 22.1);
  EXPECT_EQ(told["ratio"], 1.105);
}

}  // namespace
}  // namespace parplan::cuda
