// Tests our host code for NCCL over a fake NCCL: threads, streams, deadlines and shutdown.

#include "executor/device/cuda/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/device/cuda/cuda_device.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/fake_runtime.h"
#include "tests/support/status_matchers.h"

namespace parplan::cuda {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

// A job whose patience ends when a test says so.
class TestContext : public RankContext {
 public:
  explicit TestContext(JobFabric& fabric) : fabric_(fabric) {}
  int rank() const override { return fabric_.rank(); }
  int world_size() const override { return fabric_.world_size(); }
  absl::Duration operation_timeout() const override {
    return has_no_patience ? absl::Microseconds(1) : is_hasty ? absl::Seconds(3) : absl::Minutes(5);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(const std::string& name,
                                                          const std::vector<int>& ranks) override {
    return fabric_.MakeGroup(name, ranks);
  }
  absl::Status Publish(const std::string& key, const std::string& value) override {
    return fabric_.Publish(key, value);
  }
  absl::StatusOr<std::string> Await(const std::string& key) override { return fabric_.Await(key); }
  absl::Status Health() override { return fabric_.Health(); }
  void Abort(const std::string& why) override { fabric_.Abort(why); }

  std::atomic<bool> is_hasty = false;
  std::atomic<bool> has_no_patience = false;

 private:
  JobFabric& fabric_;
};

class NcclCommunicatorTest : public testing::Test {
 protected:
  void SetUp() override {
    ResetFakes();
    call_patience = absl::Seconds(1);
  }
  // Every communicator that was made has ended, once.
  void TearDown() override { EXPECT_EQ(TheFakeNccl().made, TheFakeNccl().ended); }

  // On every rank, with its queue and a group of all.
  static void OnRanks(
      int size, const std::function<void(NcclCommunicator&, CudaQueue&, TestContext&)>& work) {
    RunRanks(size, {.spin_count = 50}, [&](JobFabric& fabric) {
      TestContext job(fabric);
      ASSERT_OK_AND_ASSIGN(const auto queue, CudaQueue::Create(fabric.rank()));
      NcclDevice device(*queue);
      ASSERT_OK_AND_ASSIGN(const auto group, Make(device, job));
      ASSERT_OK(group->Warm());
      work(*group, *queue, job);
    });
  }
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Make(NcclDevice& device,
                                                                RankContext& fabric,
                                                                const std::string& name = "all",
                                                                const std::string& purpose = "") {
    return NcclCommunicator::Create({.purpose = purpose.empty() ? name : purpose,
                                     .name = name,
                                     .label = name + " stride=1",
                                     .id = name + "#0",
                                     .rank = fabric.rank(),
                                     .size = fabric.world_size(),
                                     .job = &fabric,
                                     .device = &device,
                                     .call_patience = call_patience});
  }

  static absl::Duration call_patience;
};

absl::Duration NcclCommunicatorTest::call_patience;

constexpr auto kType = ElementType::kFloat32;

TEST_F(NcclCommunicatorTest, Collectives) {
  OnRanks(3, [](NcclCommunicator& group, CudaQueue& queue, TestContext&) {
    const auto rank = static_cast<float>(group.rank());
    Floats sum = {rank, 10.0f * rank};
    EXPECT_OK(group.AllReduce(kType, sum.data(), 2));
    EXPECT_OK(queue.Synchronize());
    EXPECT_THAT(sum, ElementsAre(3.0f, 30.0f));
    Floats most = {rank};
    EXPECT_OK(group.AllReduce(kType, most.data(), 1, Reduction::kMax));
    Floats share = {rank + 5.0f};
    Floats whole(3);
    EXPECT_OK(group.AllGather(kType, share.data(), whole.data(), 1));
    EXPECT_OK(queue.Synchronize());
    EXPECT_THAT(most, ElementsAre(2.0f));
    EXPECT_THAT(whole, ElementsAre(5.0f, 6.0f, 7.0f));
    EXPECT_OK(group.ReduceScatter(kType, whole.data(), share.data(), 1));
    Floats told = {rank};
    EXPECT_OK(group.Broadcast(kType, told.data(), 1, /*root=*/1));
    const Floats out = {rank, rank + 10.0f, rank + 20.0f};
    Floats in(3);
    EXPECT_OK(group.Run({.operation = Operation::kAllToAll,
                         .type = kType,
                         .count = 1,
                         .send = out.data(),
                         .receive = in.data()}));
    EXPECT_OK(group.Barrier());
    EXPECT_OK(queue.Synchronize());
    EXPECT_THAT(share, ElementsAre(3.0f * (rank + 5.0f)));
    EXPECT_THAT(told, ElementsAre(1.0f));
    EXPECT_THAT(in, ElementsAre(10.0f * rank, 10.0f * rank + 1.0f, 10.0f * rank + 2.0f));
    const CommunicatorStats stats = group.Stats();
    EXPECT_EQ(stats.entries[static_cast<int>(Operation::kAllGather)].byte_count, 12);
  });
  // A communicator that ends normally is not aborted.
  EXPECT_EQ(TheFakeNccl().aborted, 0);
}

TEST_F(NcclCommunicatorTest, CallsThatBreakARuleAreNotStarted) {
  OnRanks(1, [](NcclCommunicator& group, CudaQueue&, TestContext&) {
    float number = 0.0f;
    EXPECT_THAT(group.AllReduce(ElementType::kByte, &number, 4),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("added up")));
    EXPECT_OK(group.AllReduce(kType, &number, 1));
  });
}

// All send to the next and the last, and receive from both, in one call of NCCL.
TEST_F(NcclCommunicatorTest, MessagesOfOneCallDoNotWaitForEachOther) {
  OnRanks(3, [](NcclCommunicator& group, CudaQueue& queue, TestContext&) {
    const int next = (group.rank() + 1) % 3;
    const int last = (group.rank() + 2) % 3;
    const Floats out = {static_cast<float>(group.rank())};
    Floats in = {-1.0f, -1.0f};
    std::vector<CollectiveCall> calls;
    for (const int peer : {next, last}) {
      calls.push_back({.operation = Operation::kSend,
                       .type = kType,
                       .count = 1,
                       .send = out.data(),
                       .peer = peer});
    }
    for (const int peer : {last, next}) {
      calls.push_back({.operation = Operation::kReceive,
                       .type = kType,
                       .count = 1,
                       .receive = &in[peer == last ? 0 : 1],
                       .peer = peer});
    }
    ASSERT_OK_AND_ASSIGN(const auto work, group.StartTogether(calls));
    EXPECT_OK(work->Wait());
    EXPECT_OK(work->Wait());
    EXPECT_OK(queue.Synchronize());
    EXPECT_TRUE(work->IsDone());
    EXPECT_THAT(in, ElementsAre(last, next));
    EXPECT_OK(group.RunTogether({}));
  });
  EXPECT_EQ(TheFakeNccl().operations, 3);
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

// The order of the back end before this one: a thread for each channel gave it operations whenever
// it came to them. Ranks exchange messages; on both, the wait of the compute stream for what is
// received was queued before the send. With enough hardware queues that is well; where the send
// shares one with the compute stream, each rank's send is behind the wait for the other's.
TEST_F(NcclCommunicatorTest, TheFakeHangsWhenSharedQueuesCarryWaitsBeforeSends) {
  for (const int queues : {1, 32}) {
    ResetFakes();
    TheFakeCuda().queue_count = queues;
    std::vector<ncclComm_t> sends(2);
    std::vector<ncclComm_t> receives(2);
    std::vector<std::array<cudaStream_t, 3>> streams(2);
    std::vector<cudaEvent_t> received(2);
    ncclUniqueId ids[2];
    for (ncclUniqueId& id : ids) ASSERT_EQ(::ncclGetUniqueId(&id), ncclSuccess);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        static_cast<void>(::cudaSetDevice(rank));
        for (cudaStream_t& stream : streams[rank]) {
          static_cast<void>(::cudaStreamCreateWithFlags(&stream, 0));
        }
        static_cast<void>(::cudaEventCreateWithFlags(&received[rank], 0));
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 1;
        for (const int way : {0, 1}) {
          ncclComm_t& comm = way == rank ? sends[rank] : receives[rank];
          static_cast<void>(::ncclCommInitRankConfig(&comm, 2, ids[way], rank, &config));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Floats numbers(4);
    for (int rank = 0; rank < 2; ++rank) {
      const auto& [compute, send, receive] = streams[rank];
      ::ncclRecv(&numbers[rank], 1, ncclFloat32, 1 - rank, receives[rank], receive);
      ::cudaEventRecord(received[rank], receive);
      ::cudaStreamWaitEvent(compute, received[rank], 0);
      ::ncclSend(&numbers[2 + rank], 1, ncclFloat32, 1 - rank, sends[rank], send);
    }
    const std::string hang = DescribeHang();
    if (queues == 32) {
      EXPECT_EQ(hang, "");
    } else {
      EXPECT_THAT(hang, AllOf(HasSubstr("is queued behind"), HasSubstr("in a circle")));
    }
    for (int rank = 0; rank < 2; ++rank) {
      ::ncclCommAbort(sends[rank]);
      ::ncclCommAbort(receives[rank]);
    }
    for (const auto& own : streams) {
      for (cudaStream_t const stream : own) ::cudaStreamDestroy(stream);
    }
    for (cudaEvent_t const event : received) ::cudaEventDestroy(event);
  }
}

}  // namespace
}  // namespace parplan::cuda
