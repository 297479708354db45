// The operations of groups, over a fake NCCL.

#include "executor/device/cuda/nccl_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/nccl_ranks.h"
#include "tests/support/status_matchers.h"

namespace parplan::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

}  // namespace
}  // namespace parplan::cuda
