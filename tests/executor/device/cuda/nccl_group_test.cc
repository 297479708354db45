// The making, the division and the end of groups, over a fake NCCL.

#include "executor/device/cuda/nccl_group.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/nccl_ranks.h"
#include "tests/support/status_matchers.h"

namespace parplan::cuda {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(NcclCommunicatorTest, WhatCannotBeMadeSaysWhy) {
  RunRanks(1, {.spin_count = 50}, [](JobFabric& fabric) {
    TheFakeNccl().make_result = ncclInvalidUsage;
    ASSERT_OK_AND_ASSIGN(const auto queue, CudaQueue::Create(0));
    NcclDevice device(*queue);
    ASSERT_OK_AND_ASSIGN(const auto group, Make(device, fabric));
    EXPECT_THAT(group->Warm(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("the making of all")));
  });
}

TEST_F(NcclCommunicatorTest, ARankThatDoesNotJoinIsWaitedForNoLongerThanTheDeadline) {
  RunRanks(2, {.spin_count = 50}, [](JobFabric& fabric) {
    TestContext job(fabric);
    job.is_hasty = true;
    ASSERT_OK_AND_ASSIGN(const auto queue, CudaQueue::Create(fabric.rank()));
    NcclDevice device(*queue);
    if (fabric.rank() == 0) {
      ASSERT_OK_AND_ASSIGN(const auto group, Make(device, job));
      EXPECT_THAT(group->Warm(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                          AllOf(HasSubstr("all"), HasSubstr("3s"))));
      EXPECT_OK(fabric.Publish("over", "yes"));
    } else {
      EXPECT_OK(fabric.Await("over").status());
    }
  });
}

TEST_F(NcclCommunicatorTest, PartsInTheOrderOfTheirKeys) {
  OnRanks(3, [](NcclCommunicator& group, CudaQueue& queue, TestContext&) {
    const int color = group.rank() == 1 ? -1 : 7;
    ASSERT_OK_AND_ASSIGN(const auto part, group.Split(color, -group.rank()));
    if (group.rank() == 1) {
      EXPECT_EQ(part, nullptr);
    } else {
      ASSERT_NE(part, nullptr);
      EXPECT_EQ(part->size(), 2);
      EXPECT_EQ(part->rank(), group.rank() == 2 ? 0 : 1);
      Floats sum = {1.0f};
      EXPECT_OK(part->AllReduce(kType, sum.data(), 1));
      EXPECT_OK(queue.Synchronize());
      EXPECT_THAT(sum, ElementsAre(2.0f));
    }
    EXPECT_OK(group.Barrier());
  });
}

// Why groups share no resources of NCCL (docs/adr/0025-nccl-in-program-order.md): a receive that is
// posted early holds up the collectives without which its message is not computed. Rank 0 posts it;
// both then reduce, and rank 1 sends.
TEST_F(NcclCommunicatorTest, AReceiveHoldsUpCollectivesOfGroupsThatShareResources) {
  for (const int shares : {0, 1}) {
    ResetFakes();
    TheFakeCuda().queue_count = 32;
    ncclUniqueId id;
    ASSERT_EQ(::ncclGetUniqueId(&id), ncclSuccess);
    // [rank][all, messages, tensor]
    ncclComm_t comms[2][3] = {};
    cudaStream_t streams[2][3] = {};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        static_cast<void>(::cudaSetDevice(rank));
        for (cudaStream_t& stream : streams[rank]) ::cudaStreamCreateWithFlags(&stream, 0);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 1;
        config.splitShare = shares;
        ::ncclCommInitRankConfig(&comms[rank][0], 2, id, rank, &config);
        for (const int part : {1, 2}) {
          ::ncclCommSplit(comms[rank][0], 0, rank, &comms[rank][part], &config);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    float numbers[3] = {};
    ::ncclRecv(&numbers[0], 1, ncclFloat32, 1, comms[0][1], streams[0][1]);
    for (const int rank : {0, 1}) {
      ::ncclAllReduce(&numbers[1 + rank], &numbers[1 + rank], 1, ncclFloat32, ncclSum,
                      comms[rank][2], streams[rank][2]);
    }
    // The message is made of what was reduced.
    cudaEvent_t reduced = nullptr;
    ::cudaEventCreateWithFlags(&reduced, 0);
    ::cudaEventRecord(reduced, streams[1][2]);
    ::cudaStreamWaitEvent(streams[1][1], reduced, 0);
    ::ncclSend(&numbers[2], 1, ncclFloat32, 0, comms[1][1], streams[1][1]);
    const std::string hang = DescribeHang();
    if (shares == 0) {
      EXPECT_EQ(hang, "");
    } else {
      EXPECT_THAT(hang, AllOf(HasSubstr("wait for shared resources"), HasSubstr("in a circle")));
    }
    for (const auto& own : comms) {
      for (ncclComm_t const comm : own) ::ncclCommAbort(comm);
    }
    for (const auto& own : streams) {
      for (cudaStream_t const stream : own) ::cudaStreamDestroy(stream);
    }
    ::cudaEventDestroy(reduced);
  }
}

TEST_F(NcclCommunicatorTest, ASplitThatOthersDoNotCallEndsAtTheDeadline) {
  OnRanks(2, [](NcclCommunicator& group, CudaQueue&, TestContext& job) {
    if (group.rank() == 1) {
      EXPECT_OK(job.Await("over").status());
      return;
    }
    job.is_hasty = true;
    EXPECT_THAT(group.Split(0, 0).status(),
                StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("all/0.0")));
    // The group cannot be used any more.
    float number = 0.0f;
    EXPECT_THAT(group.AllReduce(kType, &number, 1), StatusIs(absl::StatusCode::kAborted));
    EXPECT_OK(job.Publish("over", "yes"));
  });
}

// NCCL destroys a communicator with the other ranks of a machine, and knows no deadline.
TEST_F(NcclCommunicatorTest, ARankThatDoesNotLeaveIsWaitedForNoLongerThanTheDeadline) {
  RunRanks(2, {.spin_count = 50}, [](JobFabric& fabric) {
    TestContext job(fabric);
    ASSERT_OK_AND_ASSIGN(const auto queue, CudaQueue::Create(fabric.rank()));
    NcclDevice device(*queue);
    ASSERT_OK_AND_ASSIGN(auto group, Make(device, job));
    ASSERT_OK(group->Warm());
    if (fabric.rank() == 1) {
      ASSERT_OK(job.Await("over").status());
      group.reset();
      EXPECT_OK(queue->Synchronize());
      return;
    }
    job.has_no_patience = true;
    group.reset();
    EXPECT_THAT(queue->Synchronize(),
                StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("the destruction of all")));
    EXPECT_OK(fabric.Publish("over", "yes"));
  });
  // The thread that was left behind ends too.
  while (TheFakeNccl().ended < 2) std::this_thread::yield();
  EXPECT_EQ(TheFakeNccl().aborted, 0);
}

}  // namespace
}  // namespace parplan::cuda
