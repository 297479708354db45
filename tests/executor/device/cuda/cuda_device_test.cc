// A device and its groups, over a fake runtime and a fake NCCL.

#include "executor/device/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/nccl_ranks.h"
#include "tests/support/status_matchers.h"

namespace parplan::cuda {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// NCCL refuses two ranks on one GPU, so their groups go through the host.
TEST_F(NcclCommunicatorTest, OnlyRanksOfOneGpuGoThroughTheHost) {
  for (const bool shares : {false, true}) {
    RunRanks(2, {.spin_count = 50}, [&](JobFabric& fabric) {
      ASSERT_OK_AND_ASSIGN(const auto device, CudaDevice::Open(shares ? 0 : fabric.rank(),
                                                               GroupTransport::kAutomatic));
      ASSERT_OK_AND_ASSIGN(const auto group, device->MakeGroup(fabric, "pair", {0, 1}));
      Floats sum = {1.0f};
      EXPECT_OK(group->AllReduce(kType, sum.data(), 1));
      EXPECT_OK(device->Synchronize());
      EXPECT_THAT(sum, Each(2.0f));
      EXPECT_OK(group->Barrier());
    });
    EXPECT_EQ(TheFakeNccl().made, 2);
  }
}

// Whoever has one GPU needs no NCCL; whoever has several is told what to install.
TEST_F(NcclCommunicatorTest, WithoutTheLibraryARankAloneGoesOnAndOthersSaySo) {
  TheFakeNccl().is_missing = true;
  for (const GroupTransport transport : {GroupTransport::kAutomatic, GroupTransport::kNative}) {
    RunRanks(2, {.spin_count = 50}, [&](JobFabric& fabric) {
      ASSERT_OK_AND_ASSIGN(const auto device, CudaDevice::Open(fabric.rank(), transport));
      ASSERT_OK_AND_ASSIGN(const auto alone, device->MakeGroup(fabric, "alone", {fabric.rank()}));
      EXPECT_OK(alone->Warm());
      Floats sum = {3.0f};
      Floats whole = {0.0f};
      EXPECT_OK(alone->AllReduce(kType, sum.data(), 1));
      EXPECT_OK(alone->AllGather(kType, sum.data(), whole.data(), 1));
      EXPECT_OK(device->Synchronize());
      EXPECT_THAT(whole, ElementsAre(3.0f));
      EXPECT_THAT(device->MakeGroup(fabric, "pair", {0, 1}).status(),
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           AllOf(HasSubstr("group pair[0,1]: libnccl.so.2 cannot be loaded"),
                                 Not(HasSubstr("\n")))));
    });
  }
  EXPECT_EQ(TheFakeNccl().made, 0);
}

// Predictions need what each communicator takes of a GPU; profiles carry the notes.
TEST_F(NcclCommunicatorTest, TheDeviceNotesTheMemoryOfCommunicators) {
  RunRanks(2, {.spin_count = 50}, [](JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(const auto device,
                         CudaDevice::Open(fabric.rank(), GroupTransport::kNative));
    EXPECT_THAT(device->Notes(), testing::IsEmpty());
    ASSERT_OK_AND_ASSIGN(const auto pair, device->MakeGroup(fabric, "pair", {0, 1}));
    EXPECT_THAT(device->Notes(), testing::IsEmpty());
    EXPECT_OK(pair->Warm());
    EXPECT_OK(pair->Warm());
    ASSERT_OK_AND_ASSIGN(const auto part, pair->Split(0, 0));
    EXPECT_THAT(device->Notes(), ElementsAre(AllOf(HasSubstr("2 took 12 MiB"),
                                                   HasSubstr("6 MiB of it that of pair[0,1]"))));
  });
}

TEST_F(NcclCommunicatorTest, TheStopwatchAndMemoryOfADevice) {
  ASSERT_OK_AND_ASSIGN(const auto device, CudaDevice::Open(0, GroupTransport::kNative));
  const std::unique_ptr<Stopwatch> stopwatch = device->MakeStopwatch();
  stopwatch->Start();
  stopwatch->Stop();
  EXPECT_THAT(stopwatch->Elapsed(), IsOkAndHolds(absl::Milliseconds(1)));
  ASSERT_OK_AND_ASSIGN(void* const data,
                       device->memory().Allocate(Bytes::Of(8), Lifetime::kLasting));
  const double given = 4.5;
  double got = 0.0;
  EXPECT_OK(device->CopyFromHost(&given, data, Bytes::Of(8)));
  EXPECT_OK(device->CopyToHost(data, &got, Bytes::Of(8)));
  EXPECT_EQ(got, given);
  device->memory().Free(data);
  EXPECT_THAT(device->MakeKernels(ElementType::kFloat64).status(),
              StatusIs(absl::StatusCode::kUnimplemented));
}

}  // namespace
}  // namespace parplan::cuda
