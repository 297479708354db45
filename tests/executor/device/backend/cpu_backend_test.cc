// The back end whose devices are cores.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sched.h>

#include <memory>
#include <thread>
#include <vector>

#include "executor/device/backend/device_backend.h"
#include "executor/device/backend/machine.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(CpuBackend, DevicesAreCoresWithTheirShareOfMemory) {
  const std::unique_ptr<DeviceBackend> backend = MakeCpuBackend();
  ASSERT_GE(backend->device_count(), 1);
  ASSERT_OK_AND_ASSIGN(const DeviceFacts description, backend->Describe(0));
  EXPECT_THAT(description.kind, StartsWith("CPU "));
  EXPECT_GT(description.memory, Bytes::Of(1 << 20));
  EXPECT_THAT(backend->Open(backend->device_count()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("devices")));
}

// Ranks are bound to a processor each before they look.
TEST(CpuBackend, AShareOfMemoryIsNotMoreForWhoIsBound) {
  const int count = UsableProcessorCount();
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(all), &all), 0);
  EXPECT_GE(count, CPU_COUNT(&all));
  EXPECT_GT(MachineMemory(), Bytes::Of(0));
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
      if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    }
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(UsableProcessorCount(), count);
    EXPECT_EQ(MakeCpuBackend()->device_count(), 1);
    EXPECT_EQ(MakeCpuBackend()->Describe(0)->memory, Bytes::Of(MachineMemory().count() / count));
  }).join();
}

TEST(CpuBackend, ADeviceHasKernelsMemoryAndAStopwatch) {
  ASSERT_OK_AND_ASSIGN(const auto device, MakeCpuBackend()->Open(0));
  ASSERT_OK_AND_ASSIGN(const auto kernels, device->MakeKernels(ElementType::kFloat32));
  EXPECT_EQ(kernels->type(), ElementType::kFloat32);
  EXPECT_THAT(device->MakeKernels(ElementType::kBfloat16).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("fp32 and fp64")));
  const std::vector<float> given = {1.0f, 2.0f, 3.0f};
  const Bytes size = Bytes::Of(12);
  ASSERT_OK_AND_ASSIGN(void* const data, device->memory().Allocate(size, Lifetime::kLasting));
  const std::unique_ptr<Stopwatch> stopwatch = device->MakeStopwatch();
  stopwatch->Start();
  EXPECT_OK(device->CopyFromHost(given.data(), data, size));
  kernels->Scale(2.0, data, 3);
  stopwatch->Stop();
  EXPECT_OK(device->Synchronize());
  std::vector<float> result(3);
  EXPECT_OK(device->CopyToHost(data, result.data(), size));
  EXPECT_THAT(result, testing::ElementsAre(2.0f, 4.0f, 6.0f));
  ASSERT_OK_AND_ASSIGN(const absl::Duration elapsed, stopwatch->Elapsed());
  EXPECT_GT(elapsed, absl::ZeroDuration());
  device->memory().Free(data);
}

TEST(CpuBackend, GroupsAreThoseOfTheJob) {
  RunRanks(2, {.spin_count = 50}, [](JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(const auto device, MakeCpuBackend()->Open(0));
    ASSERT_OK_AND_ASSIGN(const auto group, device->MakeGroup(fabric, "pair", {0, 1}));
    float value = fabric.rank() == 0 ? 3.0f : 4.0f;
    EXPECT_OK(group->AllReduce(ElementType::kFloat32, &value, 1));
    EXPECT_EQ(value, 7.0f);
  });
}

}  // namespace
}  // namespace parplan
