// Memory, stopwatch and groups of a GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/status_macros.h"
#include "executor/device/kernels/host_elements.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/device/cuda/gpu.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Numbers = std::vector<double>;

// A device, its kernels of fp32, and arrays of them.
struct Gpu {
  static absl::StatusOr<std::unique_ptr<Gpu>> Open(DeviceBackend& backend) {
    auto gpu = std::make_unique<Gpu>();
    PARPLAN_ASSIGN_OR_RETURN(gpu->device, backend.Open(0));
    PARPLAN_ASSIGN_OR_RETURN(gpu->kernels, gpu->device->MakeKernels(ElementType::kFloat32));
    gpu->pool = std::make_unique<ArrayPool>(gpu->device->memory());
    return gpu;
  }
  Array Put(const Numbers& numbers) {
    absl::StatusOr<Array> array =
        pool->Take(ArrayUse::kTransient, Bytes::Of(static_cast<int64_t>(numbers.size()) * 4));
    EXPECT_OK(array.status());
    if (!array.ok()) return Array();
    EXPECT_OK(WriteElements(*kernels, ElementType::kFloat32, numbers, array->data()));
    return *std::move(array);
  }
  Numbers Read(const Array& array, int64_t count) {
    absl::StatusOr<Numbers> numbers =
        ReadElements(*kernels, ElementType::kFloat32, array.data(), count);
    EXPECT_OK(numbers.status());
    return numbers.ok() ? *numbers : Numbers();
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<LayerKernels> kernels;
  std::unique_ptr<ArrayPool> pool;
};

TEST(GpuDevice, CountsMemoryAndSaysWhenThereIsNoMore) {
  PARPLAN_GPUS_OR_SKIP(backend);
  ASSERT_OK_AND_ASSIGN(const auto gpu, Gpu::Open(*backend));
  ASSERT_OK_AND_ASSIGN(const DeviceFacts facts, backend->Describe(0));
  EXPECT_THAT(gpu->device->memory()
                  .Allocate(Bytes::Of(2 * facts.memory.count()), Lifetime::kLasting)
                  .status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("bytes of the GPU")));
  // Nothing is left of the error.
  const Array array = gpu->Put({1.0, 2.0});
  EXPECT_EQ(gpu->pool->usage().Total(), Bytes::Of(8));
  gpu->kernels->Scale(3.0, array.data(), 2);
  EXPECT_OK(gpu->device->Synchronize());
  EXPECT_THAT(gpu->Read(array, 2), ElementsAre(3.0, 6.0));
}

TEST(GpuDevice, TheStopwatchMeasuresTheGpusWork) {
  PARPLAN_GPUS_OR_SKIP(backend);
  ASSERT_OK_AND_ASSIGN(const auto gpu, Gpu::Open(*backend));
  constexpr int64_t kCount = int64_t{1} << 26;
  ASSERT_OK_AND_ASSIGN(const Array array,
                       gpu->pool->Take(ArrayUse::kTransient, Bytes::Of(4 * kCount)));
  gpu->kernels->Zero(array.data(), kCount);
  const auto time = [&](int repetitions) {
    const std::unique_ptr<Stopwatch> stopwatch = gpu->device->MakeStopwatch();
    stopwatch->Start();
    for (int i = 0; i < repetitions; ++i) gpu->kernels->Scale(1.0, array.data(), kCount);
    stopwatch->Stop();
    const absl::StatusOr<absl::Duration> elapsed = stopwatch->Elapsed();
    EXPECT_OK(elapsed.status());
    return elapsed.value_or(absl::ZeroDuration());
  };
  time(1);
  const absl::Duration one = time(1);
  EXPECT_GT(one, absl::ZeroDuration());
  // It counts what the device does, not how fast it is given it.
  EXPECT_GT(time(50), 5 * one);
}

// With a device and a group of its own, on every rank.
void OnRanks(int size, DeviceBackend& backend, absl::Duration operation_timeout,
             const std::function<void(Gpu&, JobFabric&)>& work) {
  RunRanks(size, {.operation_timeout = operation_timeout, .spin_count = 50},
           [&](JobFabric& fabric) {
             const absl::StatusOr<std::unique_ptr<Gpu>> gpu = Gpu::Open(backend);
             if (!gpu.ok()) fabric.Abort("no device");
             ASSERT_OK(gpu.status());
             work(**gpu, fabric);
           });
}

TEST(GpuGroups, OneRankOfNcclDoesEveryOperation) {
  PARPLAN_GPUS_OR_SKIP(backend, GroupTransport::kNative);
  OnRanks(1, *backend, absl::Minutes(5), [](Gpu& gpu, JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(const auto group, gpu.device->MakeGroup(fabric, "alone", {0}));
    constexpr auto kType = ElementType::kFloat32;
    const Array x = gpu.Put({1.0, 2.0, 3.0});
    const Array y = gpu.Put({0.0, 0.0, 0.0});
    // Ordered after the kernel before it and before the one after it.
    gpu.kernels->Scale(2.0, x.data(), 3);
    EXPECT_OK(group->AllGather(kType, x.data(), y.data(), 3));
    gpu.kernels->Scale(10.0, y.data(), 3);
    EXPECT_THAT(gpu.Read(y, 3), ElementsAre(20.0, 40.0, 60.0));
    EXPECT_OK(group->AllReduce(kType, x.data(), 3));
    EXPECT_OK(group->AllReduce(kType, x.data(), 3, Reduction::kMax));
    EXPECT_OK(group->ReduceScatter(kType, x.data(), y.data(), 3));
    EXPECT_THAT(gpu.Read(y, 3), ElementsAre(2.0, 4.0, 6.0));
    EXPECT_OK(group->Broadcast(kType, x.data(), 3, 0));
    const Array z = gpu.Put({0.0, 0.0, 0.0});
    EXPECT_OK(group->Run({.operation = Operation::kAllToAll,
                          .type = kType,
                          .count = 3,
                          .send = x.data(),
                          .receive = z.data()}));
    EXPECT_THAT(gpu.Read(z, 3), ElementsAre(2.0, 4.0, 6.0));
    EXPECT_OK(group->Barrier());
    ASSERT_OK_AND_ASSIGN(const auto part, group->Split(0, 0));
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(part->size(), 1);
    EXPECT_OK(part->AllReduce(kType, x.data(), 3));
    ASSERT_OK_AND_ASSIGN(const auto none, group->Split(-1, 0));
    EXPECT_EQ(none, nullptr);
    EXPECT_OK(gpu.device->Synchronize());
    EXPECT_EQ(group->Stats().entries[static_cast<int>(Operation::kBroadcast)].call_count, 1);
  });
}

TEST(GpuGroups, AnAbortEndsNccl) {
  PARPLAN_GPUS_OR_SKIP(backend, GroupTransport::kNative);
  OnRanks(1, *backend, absl::Minutes(5), [](Gpu& gpu, JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(const auto group, gpu.device->MakeGroup(fabric, "alone", {0}));
    const Array x = gpu.Put({1.0});
    group->Abort("enough");
    EXPECT_THAT(group->AllReduce(ElementType::kFloat32, x.data(), 1),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
  });
}

// A failure of the job reaches ranks that wait for NCCL.
TEST(GpuGroups, TheEndOfTheJobEndsNccl) {
  PARPLAN_GPUS_OR_SKIP(backend, GroupTransport::kNative);
  OnRanks(1, *backend, absl::Minutes(5), [](Gpu& gpu, JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(const auto group, gpu.device->MakeGroup(fabric, "alone", {0}));
    const Array x = gpu.Put({1.0});
    fabric.Abort("the power fails");
    absl::Status status;
    while (status.ok()) status = group->AllReduce(ElementType::kFloat32, x.data(), 1);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the power fails"));
  });
}

TEST(GpuGroups, NcclWaitsForRanksNoLongerThanItsDeadline) {
  PARPLAN_GPUS_OR_SKIP(backend, GroupTransport::kNative);
  OnRanks(2, *backend, absl::Seconds(3), [](Gpu& gpu, JobFabric& fabric) {
    // Rank 1 never comes.
    if (fabric.rank() == 0) {
      ASSERT_OK_AND_ASSIGN(const auto group, gpu.device->MakeGroup(fabric, "pair", {0, 1}));
      EXPECT_THAT(group->Warm(), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("pair")));
      EXPECT_OK(fabric.Publish("over", "yes"));
    } else {
      EXPECT_OK(fabric.Await("over").status());
    }
  });
}

TEST(GpuGroups, RanksThatShareAGpuGoThroughTheHost) {
  PARPLAN_GPUS_OR_SKIP(backend);
  OnRanks(4, *backend, absl::Minutes(5), [](Gpu& gpu, JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(const auto group, gpu.device->MakeGroup(fabric, "all", {0, 1, 2, 3}));
    const auto rank = static_cast<double>(fabric.rank());
    const Array sum = gpu.Put(Numbers(1000, rank));
    EXPECT_OK(group->AllReduce(ElementType::kFloat32, sum.data(), 1000));
    EXPECT_THAT(gpu.Read(sum, 1000), Each(6.0));
    const Array in = gpu.Put({0.0});
    const Array out = gpu.Put({rank});
    const CollectiveCall calls[] = {{.operation = Operation::kSend,
                                     .count = 1,
                                     .send = out.data(),
                                     .peer = (fabric.rank() + 1) % 4},
                                    {.operation = Operation::kReceive,
                                     .count = 1,
                                     .receive = in.data(),
                                     .peer = (fabric.rank() + 3) % 4}};
    EXPECT_OK(group->RunTogether(calls));
    EXPECT_THAT(gpu.Read(in, 1), ElementsAre((fabric.rank() + 3) % 4));
  });
}

// With several GPUs: NCCL between two of them, both ways in one call, and each way in a group of
// its own while the other way has not begun.
TEST(GpuGroups, NcclSendsBothWaysAtOnce) {
  PARPLAN_GPUS_OR_SKIP(backend, GroupTransport::kNative);
  if (backend->device_count() < 2) GTEST_SKIP() << "needs two GPUs";
  RunRanks(2, {.spin_count = 50}, [&](JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(const auto device, backend->Open(fabric.rank()));
    ASSERT_OK_AND_ASSIGN(const auto group, device->MakeGroup(fabric, "pair", {0, 1}));
    ASSERT_OK_AND_ASSIGN(const auto up, device->MakeGroup(fabric, "up", {0, 1}));
    ASSERT_OK_AND_ASSIGN(const auto down, device->MakeGroup(fabric, "down", {0, 1}));
    for (Communicator* const each : {group.get(), up.get(), down.get()}) ASSERT_OK(each->Warm());
    Communicator& sending = fabric.rank() == 0 ? *up : *down;
    Communicator& receiving = fabric.rank() == 0 ? *down : *up;
    constexpr int64_t kCount = int64_t{1} << 24;
    ASSERT_OK_AND_ASSIGN(void* const out,
                         device->memory().Allocate(Bytes::Of(4 * kCount), Lifetime::kLasting));
    ASSERT_OK_AND_ASSIGN(void* const in,
                         device->memory().Allocate(Bytes::Of(4 * kCount), Lifetime::kLasting));
    const int other = 1 - fabric.rank();
    const CollectiveCall send = {
        .operation = Operation::kSend, .count = kCount, .send = out, .peer = other};
    const CollectiveCall receive = {
        .operation = Operation::kReceive, .count = kCount, .receive = in, .peer = other};
    for (int i = 0; i < 3; ++i) {
      EXPECT_OK(group->RunTogether({send, receive}));
      ASSERT_OK_AND_ASSIGN(const auto sent, sending.Start(send));
      EXPECT_OK(receiving.Run(receive));
      EXPECT_OK(sent->Wait());
    }
    EXPECT_OK(device->Synchronize());
    device->memory().Free(out);
    device->memory().Free(in);
  });
}

}  // namespace
}  // namespace parplan
