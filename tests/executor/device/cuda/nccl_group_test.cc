// The making, the division and the end of groups, over a fake NCCL.

#include "executor/device/cuda/nccl_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

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
