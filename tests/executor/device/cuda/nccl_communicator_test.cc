// Threads, deadlines, errors and aborts of groups, over a fake NCCL.

#include "executor/device/cuda/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/fake_runtime.h"
#include "tests/executor/device/cuda/nccl_ranks.h"
#include "tests/support/status_matchers.h"

namespace parplan::cuda {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(NcclCommunicatorTest, AnOperationThatOthersDoNotCallEndsAtTheDeadline) {
  OnRanks(2, [](NcclCommunicator& group, CudaQueue& queue, TestContext& job) {
    if (group.rank() == 1) {
      EXPECT_OK(job.Await("over").status());
      return;
    }
    Floats sum = {1.0f};
    job.is_hasty = true;
    // Still running as far as the host knows; the device reports the error at the end.
    EXPECT_OK(group.AllReduce(kType, sum.data(), 1));
    EXPECT_THAT(queue.Synchronize(),
                StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("all-reduce of all")));
    EXPECT_THAT(group.AllReduce(kType, sum.data(), 1),
                StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("all-reduce of all")));
    EXPECT_OK(job.Publish("over", "yes"));
  });
}

// On a GPU an abort may wait for a kernel that waits for one of another group. Each has to be
// aborted while the other's abort is under way.
TEST_F(NcclCommunicatorTest, AnAbortThatWaitsForAnotherGroupsAbortHoldsUpNothing) {
  RunRanks(2, {.spin_count = 50}, [](JobFabric& fabric) {
    TestContext job(fabric);
    ASSERT_OK_AND_ASSIGN(const auto queue, CudaQueue::Create(fabric.rank()));
    NcclDevice device(*queue);
    ASSERT_OK_AND_ASSIGN(const auto one, Make(device, job, "one"));
    ASSERT_OK_AND_ASSIGN(const auto two, Make(device, job, "two"));
    for (const auto* const group : {&one, &two}) ASSERT_OK((*group)->Warm());
    if (fabric.rank() == 1) {
      EXPECT_OK(job.Await("over").status());
      return;
    }
    TheFakeNccl().aborts_at_once = 2;
    Floats sum = {1.0f, 1.0f};
    // Rank 1 calls neither.
    ASSERT_OK_AND_ASSIGN(const auto first, one->Start({.operation = Operation::kAllReduce,
                                                       .type = kType,
                                                       .count = 1,
                                                       .send = &sum[0],
                                                       .receive = &sum[0]}));
    ASSERT_OK_AND_ASSIGN(const auto second, two->Start({.operation = Operation::kAllReduce,
                                                        .type = kType,
                                                        .count = 1,
                                                        .send = &sum[1],
                                                        .receive = &sum[1]}));
    job.is_hasty = true;
    while (!first->IsDone() || !second->IsDone()) std::this_thread::yield();
    EXPECT_THAT(first->Wait(), StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_THAT(second->Wait(), StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_THAT(queue->Synchronize(), StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_OK(job.Publish("over", "yes"));
  });
}

// NCCL may itself wait for others within a call, for example to connect to them.
TEST_F(NcclCommunicatorTest, ACallThatDoesNotReturnIsAbortedAtTheDeadline) {
  OnRanks(1, [](NcclCommunicator& group, CudaQueue& queue, TestContext& job) {
    TheFakeNccl().calls_block = true;
    job.is_hasty = true;
    float number = 0.0f;
    EXPECT_THAT(group.AllReduce(kType, &number, 1),
                StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("all-reduce of all")));
    EXPECT_THAT(queue.Synchronize(), StatusIs(absl::StatusCode::kDeadlineExceeded));
    TheFakeNccl().calls_block = false;
  });
  EXPECT_EQ(TheFakeNccl().aborted, 1);
}

// Nobody may wait for an operation for long, for example for the last send of a direction.
TEST_F(NcclCommunicatorTest, AnOperationThatHasEndedIsNotOverdueThoughNobodyHasWaited) {
  OnRanks(2, [](NcclCommunicator& group, CudaQueue& queue, TestContext& job) {
    Floats sum = {1.0f};
    ASSERT_OK_AND_ASSIGN(const auto work, group.Start({.operation = Operation::kAllReduce,
                                                       .type = kType,
                                                       .count = 1,
                                                       .send = sum.data(),
                                                       .receive = sum.data()}));
    for (const int rank : {0, 1}) {
      const std::string key = absl::StrCat("started ", rank);
      ASSERT_OK(rank == group.rank() ? job.Publish(key, "yes") : job.Await(key).status());
    }
    job.has_no_patience = true;
    // Each group has been looked at twice then.
    const int looks = TheFakeNccl().looks;
    while (TheFakeNccl().looks < looks + 6) std::this_thread::yield();
    job.has_no_patience = false;
    EXPECT_OK(job.Health());
    EXPECT_OK(work->Wait());
    EXPECT_OK(queue.Synchronize());
    EXPECT_THAT(sum, ElementsAre(2.0f));
  });
  EXPECT_EQ(TheFakeNccl().aborted, 0);
}

// Operations of one purpose share a stream, where one waits for those before it. The first that
// hangs is the one to name, whichever group is looked at first.
TEST_F(NcclCommunicatorTest, AnOperationBehindThatOfAnotherGroupIsNotOverdue) {
  for (const bool hangs_in_first : {true, false}) {
    SCOPED_TRACE(hangs_in_first);
    RunRanks(2, {.spin_count = 50}, [&](JobFabric& fabric) {
      TestContext job(fabric);
      ASSERT_OK_AND_ASSIGN(const auto queue, CudaQueue::Create(fabric.rank()));
      NcclDevice device(*queue);
      std::vector<std::unique_ptr<NcclCommunicator>> groups;
      for (const char* const name : {"one", "two"}) {
        ASSERT_OK_AND_ASSIGN(groups.emplace_back(), Make(device, job, name, "gradients"));
        ASSERT_OK(groups.back()->Warm());
      }
      // The thread looks in the order of addresses.
      if (std::less<>()(groups[1].get(), groups[0].get())) std::swap(groups[0], groups[1]);
      NcclCommunicator& hanging = *groups[hangs_in_first ? 0 : 1];
      NcclCommunicator& healthy = *groups[hangs_in_first ? 1 : 0];
      Floats sums = {1.0f, 1.0f};
      const auto call = [&](int index) {
        return CollectiveCall{.operation = Operation::kAllReduce,
                              .type = kType,
                              .count = 1,
                              .send = &sums[index],
                              .receive = &sums[index]};
      };
      if (fabric.rank() == 1) {
        ASSERT_OK(job.Await("over").status());
        return;
      }
      // Both are given to the device before either is looked at with a deadline.
      ASSERT_OK_AND_ASSIGN(const auto first, hanging.Start(call(0)));
      ASSERT_OK_AND_ASSIGN(const auto second, healthy.Start(call(1)));
      const int looks = TheFakeNccl().looks;
      while (TheFakeNccl().looks < looks + 8) std::this_thread::yield();
      job.has_no_patience = true;
      absl::Status status;
      while (status.ok()) status = queue->Synchronize();
      EXPECT_THAT(std::string(status.message()), HasSubstr("all-reduce of " + hanging.name()));
      ASSERT_OK(job.Publish("over", "yes"));
    });
  }
}

// Who has waited on the device alone may leave before it has got there.
TEST_F(NcclCommunicatorTest, WhatIsUnderWayEndsBeforeTheCommunicator) {
  Floats sums = {1.0f, 2.0f};
  OnRanks(2, [&](NcclCommunicator& group, CudaQueue& queue, TestContext& job) {
    if (group.rank() == 1) {
      EXPECT_OK(job.Await("leaving").status());
    }
    EXPECT_OK(group.AllReduce(kType, &sums[group.rank()], 1));
    EXPECT_OK(group.rank() == 0 ? job.Publish("leaving", "yes") : queue.Synchronize());
  });
  EXPECT_THAT(sums, ElementsAre(3.0f, 3.0f));
  EXPECT_EQ(TheFakeNccl().aborted, 0);
}

TEST_F(NcclCommunicatorTest, AnAbortReachesWhoWaits) {
  OnRanks(2, [](NcclCommunicator& group, CudaQueue&, TestContext&) {
    // Rank 0 is through with making the group then; the abort may end this barrier already.
    absl::Status status = group.Barrier();
    if (group.rank() == 1) {
      group.Abort("enough");
      return;
    }
    while (status.ok()) status = group.Barrier();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
    float number = 0.0f;
    EXPECT_THAT(group.AllReduce(kType, &number, 1), StatusIs(absl::StatusCode::kAborted));
  });
}

// On an H100 an abort came within the call of a rank that made one after the other, which ended the
// process: the watching thread never got the lock between two calls.
TEST_F(NcclCommunicatorTest, NoCallBeginsAfterAFailureAndAnAbortWaitsForTheLast) {
  // However late this thread goes on.
  call_patience = absl::Hours(1);
  OnRanks(1, [](NcclCommunicator& group, CudaQueue& queue, TestContext& job) {
    Floats x = {1.0f};
    EXPECT_OK(group.AllReduce(kType, x.data(), 1));
    int call_count = 0;
    // This call lasts until the group has failed.
    TheFakeNccl().within_call = [&] {
      if (++call_count > 1) return;
      job.Abort("the power fails");
      while (queue.Synchronize().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    absl::Status status;
    while (status.ok()) status = group.AllReduce(kType, x.data(), 1);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the power fails"));
    EXPECT_EQ(call_count, 1);
  });
  EXPECT_EQ(TheFakeNccl().aborted, 1);
  EXPECT_EQ(TheFakeNccl().ended_within_calls, 0);
}

TEST_F(NcclCommunicatorTest, AnAbortWaitsForASplitUnderWay) {
  call_patience = absl::Hours(1);
  RunRanks(1, {.spin_count = 50}, [](JobFabric& fabric) {
    TestContext job(fabric);
    ASSERT_OK_AND_ASSIGN(const auto queue, CudaQueue::Create(0));
    NcclDevice device(*queue);
    ASSERT_OK_AND_ASSIGN(const auto group, Make(device, job));
    ASSERT_OK(group->Warm());
    // The operation stays under way behind this, so the queue fails with the group.
    ASSERT_OK_AND_ASSIGN(cudaStream_t const stream, device.StreamOf("all"));
    const auto work_of_others = std::make_shared<fake::Item>();
    work_of_others->name = "work of others";
    work_of_others->is_open = true;
    work_of_others->run = [] {};
    {
      const std::lock_guard<std::mutex> lock(fake::mutex);
      fake::Submit(*fake::StreamOf(stream), work_of_others);
      fake::Advance();
    }
    Floats x = {1.0f};
    ASSERT_OK_AND_ASSIGN(const auto work, group->Start({.operation = Operation::kAllReduce,
                                                        .type = kType,
                                                        .count = 1,
                                                        .send = x.data(),
                                                        .receive = x.data()}));
    // The split lasts until the group has failed.
    TheFakeNccl().within_call = [&] {
      job.Abort("the power fails");
      while (queue->Synchronize().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    const absl::Status status = group->Split(0, 0).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("the power fails"));
    // None begins after that.
    TheFakeNccl().within_call = [] { ADD_FAILURE() << "a call after the failure"; };
    EXPECT_FALSE(group->Split(0, 0).ok());
    const std::lock_guard<std::mutex> lock(fake::mutex);
    fake::Finish(*work_of_others);
    fake::Advance();
  });
  EXPECT_EQ(TheFakeNccl().ended_within_calls, 0);
}

TEST_F(NcclCommunicatorTest, AReceiveThatNobodySendsEndsWithTheJob) {
  OnRanks(2, [](NcclCommunicator& group, CudaQueue& queue, TestContext& job) {
    if (group.rank() == 1) {
      job.Abort("the power fails");
      return;
    }
    float number = 0.0f;
    const absl::Status status = group.Run({.operation = Operation::kReceive,
                                           .type = kType,
                                           .count = 1,
                                           .receive = &number,
                                           .peer = 1});
    const absl::Status later = status.ok() ? queue.Synchronize() : status;
    EXPECT_THAT(std::string(later.message()), HasSubstr("the power fails"));
    static_cast<void>(queue.Synchronize());
  });
}

TEST_F(NcclCommunicatorTest, AnErrorThatNcclFindsLaterIsTold) {
  OnRanks(1, [](NcclCommunicator& group, CudaQueue&, TestContext&) {
    float number = 0.0f;
    EXPECT_OK(group.AllReduce(kType, &number, 1));
    TheFakeNccl().state = ncclRemoteError;
    // The thread that watches sees it before long.
    absl::Status status;
    while (status.ok()) status = group.AllReduce(kType, &number, 1);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                 AllOf(HasSubstr("remote process exited"), HasSubstr("told to"))));
    EXPECT_THAT(group.AllReduce(kType, &number, 1), StatusIs(absl::StatusCode::kUnavailable));
  });
}

}  // namespace
}  // namespace parplan::cuda
