#include "profiler-agent/inventory/gpu_reader.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

GpuReaderOptions FakeGpus(const std::string& name) {
  GpuReaderOptions options;
  options.library = absl::StrCat(PARPLAN_FAKE_NVML, "/libnvml_", name, ".so");
  return options;
}

TEST(ReadGpus, ListsAllOfANodeOfEight) {
  const GpuSet gpus = ReadGpus(FakeGpus("eight"));
  ASSERT_EQ(gpus.availability, GpuAvailability::kAvailable) << gpus.message;
  EXPECT_EQ(gpus.driver_version, "580.95.05");
  EXPECT_EQ(gpus.cuda_version, 13000);
  ASSERT_EQ(gpus.devices.size(), 8);
  const GpuDevice& last = gpus.devices[7];
  EXPECT_EQ(last.index, 7);
  EXPECT_EQ(last.name, "NVIDIA H200");
  EXPECT_EQ(last.uuid, "GPU-00000000-0000-0000-0000-000000000007");
  EXPECT_EQ(last.pci_bus_id, "00000000:22:00.0");
  EXPECT_EQ(last.memory_bytes, int64_t{143771} << 20);
  EXPECT_EQ(last.compute_capability, 90);
  EXPECT_EQ(last.max_sm_clock_mhz, 1980);
  EXPECT_EQ(last.max_memory_clock_mhz, 3201);
  EXPECT_EQ(last.nvlink_count, 18);
  EXPECT_EQ(gpus.states[7].sm_clock_mhz, 345);
  EXPECT_EQ(gpus.states[7].clock_limits, 1);
  EXPECT_EQ(gpus.states[7].power_milliwatts, 81500);
  EXPECT_EQ(last.power_limit_milliwatts, 700000);
  EXPECT_EQ(gpus.states[7].temperature_celsius, 31);
  EXPECT_THAT(gpus.common_ancestors[3], ElementsAre(30, 30, 30, 0, 50, 50, 50, 50));
  EXPECT_EQ(BusyGpuText(gpus), "");
}

TEST(ReadGpus, ReadsTheGpusThatCudaSees) {
  const auto seen = [](const std::string& visible) {
    GpuReaderOptions options = FakeGpus("eight");
    options.visible_devices = visible;
    const GpuSet gpus = ReadGpus(options);
    EXPECT_EQ(gpus.availability == GpuAvailability::kAvailable, !gpus.devices.empty());
    EXPECT_EQ(gpus.states.size(), gpus.devices.size());
    EXPECT_EQ(gpus.common_ancestors.size(), gpus.devices.size());
    std::vector<int> indices;
    for (const GpuDevice& device : gpus.devices) indices.push_back(device.index);
    return indices;
  };
  EXPECT_THAT(seen("6, 1"), ElementsAre(6, 1));
  EXPECT_THAT(seen("GPU-00000000-0000-0000-0000-000000000003,0"), ElementsAre(3, 0));
  // As in CUDA, what names no GPU ends the list, and a GPU named twice leaves none.
  EXPECT_THAT(seen("2,9,3"), ElementsAre(2));
  EXPECT_THAT(seen("2,-1,3"), ElementsAre(2));
  EXPECT_THAT(seen("2,2"), IsEmpty());
  // All UUIDs of the node begin so; CUDA wants a beginning that one alone has.
  EXPECT_THAT(seen("5,GPU-00000000,3"), ElementsAre(5));
  EXPECT_THAT(seen("GPU-0"), IsEmpty());
  EXPECT_THAT(seen(""), IsEmpty());
  GpuReaderOptions none = FakeGpus("eight");
  none.visible_devices = "8";
  EXPECT_EQ(ReadGpus(none).message,
            "CUDA_VISIBLE_DEVICES is '8', which names none of the node's 8 GPUs");
  GpuReaderOptions two = FakeGpus("eight");
  two.visible_devices = "7,0";
  EXPECT_THAT(ReadGpus(two).common_ancestors[0], ElementsAre(0, 50));
}

TEST(ReadGpus, ListsWhoComputesOnAGpu) {
  const GpuSet gpus = ReadGpus(FakeGpus("busy"));
  ASSERT_EQ(gpus.states.size(), 2);
  EXPECT_THAT(*gpus.states[0].processes, IsEmpty());
  EXPECT_THAT(*gpus.states[1].processes, ElementsAre(4711));
  EXPECT_EQ(BusyGpuText(gpus), "GPU 1 is used by process 4711");
}

TEST(BusyGpuText, HasTheNumberOfTheDriver) {
  GpuReaderOptions options = FakeGpus("busy");
  options.visible_devices = "1";
  EXPECT_EQ(BusyGpuText(ReadGpus(options)), "GPU 1 is used by process 4711");
}

TEST(ReadGpus, DoesWithoutFunctionsThatAnOldLibraryLacks) {
  const GpuSet gpus = ReadGpus(FakeGpus("minimal"));
  ASSERT_EQ(gpus.availability, GpuAvailability::kAvailable) << gpus.message;
  EXPECT_EQ(gpus.devices[0].name, "NVIDIA H200");
  EXPECT_EQ(gpus.devices[0].uuid, "");
  EXPECT_EQ(gpus.devices[0].nvlink_count, 0);
  EXPECT_FALSE(gpus.states[0].processes.has_value());
}

TEST(ReadGpus, SaysWhyThereAreNone) {
  const auto expect = [](const GpuReaderOptions& options, GpuAvailability availability,
                         const std::string& words) {
    const GpuSet gpus = ReadGpus(options);
    EXPECT_STREQ(GpuAvailabilityName(gpus.availability), GpuAvailabilityName(availability));
    EXPECT_THAT(gpus.message, HasSubstr(words));
    EXPECT_EQ(gpus.message.find('\n'), std::string::npos);
    EXPECT_THAT(gpus.devices, IsEmpty());
  };
  expect(FakeGpus("that_is_not_there"), GpuAvailability::kNoLibrary,
         "no NVIDIA driver is installed");
  expect(FakeGpus("incomplete"), GpuAvailability::kIncompleteLibrary, "nvmlDeviceGetCount_v2");
  expect(FakeGpus("no_driver"), GpuAvailability::kNoDriver, "not loaded");
  expect(FakeGpus("mismatch"), GpuAvailability::kDriverMismatch, "reboot");
  expect(FakeGpus("failing"), GpuAvailability::kFailed, "Unknown Error");
  expect(FakeGpus("none"), GpuAvailability::kNoDevice, "has no GPU");
  expect(FakeGpus("lost"), GpuAvailability::kFailed, "GPU 1 does not answer: GPU is lost");
  GpuReaderOptions newer = FakeGpus("eight");
  newer.required_cuda_version = 13010;
  expect(newer, GpuAvailability::kDriverTooOld, "supports CUDA 13.0; CUDA 13.1 is required");
}

TEST(BusyGpuText, LooksAtTimeAndMemoryWhereProcessesAreHidden) {
  GpuSet gpus;
  gpus.devices.resize(1);
  gpus.devices[0].memory_bytes = 1000;
  gpus.states.resize(1);
  gpus.states[0].used_memory_bytes = 20;
  gpus.states[0].utilization_percent = 5;
  EXPECT_EQ(BusyGpuText(gpus), "");
  gpus.states[0].utilization_percent = 6;
  EXPECT_EQ(BusyGpuText(gpus), "GPU 0 is busy 6 % of the time");
  gpus.states[0].utilization_percent = 0;
  gpus.states[0].used_memory_bytes = 21;
  EXPECT_EQ(BusyGpuText(gpus), "GPU 0 has 21 bytes in use");
}

}  // namespace
}  // namespace parplan
