// Collectives between buffers that the host cannot touch.

#include "executor/device/comm/staged_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/executor/device/comm/far_memory.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kSize = 3;

// On every rank, with the group of all.
void OnRanks(const std::function<void(Communicator&, FarCopies&)>& work) {
  RunRanks(kSize, {.spin_count = 50}, [&](JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Communicator> inner, fabric.MakeGroup("all", {0, 1, 2}));
    FarCopies copies;
    StagedCommunicator group(std::move(inner), copies);
    work(group, copies);
  });
}

using Floats = std::vector<float>;

TEST(StagedCommunicator, CollectivesOfFarBuffers) {
  OnRanks([](Communicator& group, FarCopies&) {
    const auto rank = static_cast<float>(group.rank());
    constexpr auto kType = ElementType::kFloat32;
    Floats sum = {rank, 10.0f * rank};
    EXPECT_OK(group.AllReduce(kType, Far(sum.data()), 2));
    EXPECT_THAT(sum, ElementsAre(3.0f, 30.0f));
    Floats most = {rank};
    EXPECT_OK(group.AllReduce(kType, Far(most.data()), 1, Reduction::kMax));
    EXPECT_THAT(most, ElementsAre(2.0f));
    Floats whole(3, -1.0f);
    // In place, as NCCL has it.
    whole[group.rank()] = rank + 5.0f;
    EXPECT_OK(group.AllGather(kType, Far(whole.data() + group.rank()), Far(whole.data()), 1));
    EXPECT_THAT(whole, ElementsAre(5.0f, 6.0f, 7.0f));
    Floats share = {-1.0f};
    EXPECT_OK(group.ReduceScatter(kType, Far(whole.data()), Far(share.data()), 1));
    EXPECT_THAT(share, ElementsAre(3.0f * (rank + 5.0f)));
    Floats told = {group.rank() == 1 ? 42.0f : 0.0f};
    EXPECT_OK(group.Broadcast(kType, Far(told.data()), 1, /*root=*/1));
    EXPECT_THAT(told, ElementsAre(42.0f));
    const Floats out = {rank, rank + 10.0f, rank + 20.0f};
    Floats in(3);
    EXPECT_OK(group.Run({.operation = Operation::kAllToAll,
                         .count = 1,
                         .send = Far(out.data()),
                         .receive = Far(in.data())}));
    EXPECT_THAT(in, ElementsAre(10.0f * rank, 10.0f * rank + 1.0f, 10.0f * rank + 2.0f));
    EXPECT_OK(group.Barrier());
    EXPECT_EQ(group.Stats().entries[static_cast<int>(Operation::kAllReduce)].call_count, 2);
  });
}

// All send first; none waits for its own receive.
TEST(StagedCommunicator, SendsGoOnWhileOthersReceive) {
  OnRanks([](Communicator& group, FarCopies&) {
    const int next = (group.rank() + 1) % kSize;
    const int last = (group.rank() + kSize - 1) % kSize;
    Floats out(50000, static_cast<float>(group.rank()));
    Floats in(50000);
    ASSERT_OK_AND_ASSIGN(const auto sent, group.Start({.operation = Operation::kSend,
                                                       .count = 50000,
                                                       .send = Far(out.data()),
                                                       .peer = next}));
    // It was read before `Start` returned.
    out.assign(50000, -1.0f);
    EXPECT_OK(group.Run({.operation = Operation::kReceive,
                         .count = 50000,
                         .receive = Far(in.data()),
                         .peer = last}));
    EXPECT_OK(sent->Wait());
    EXPECT_OK(sent->Wait());
    EXPECT_TRUE(sent->IsDone());
    EXPECT_THAT(in, Each(static_cast<float>(last)));
  });
}

TEST(StagedCommunicator, WorkThatNobodyWaitsForEndsBeforeItsBuffers) {
  OnRanks([](Communicator& group, FarCopies&) {
    Floats sum(1000, 1.0f);
    EXPECT_OK(group
                  .Start({.operation = Operation::kAllReduce,
                          .count = 1000,
                          .send = Far(sum.data()),
                          .receive = Far(sum.data())})
                  .status());
    EXPECT_OK(group.Barrier());
  });
}

TEST(StagedCommunicator, PartsAreStagedToo) {
  OnRanks([](Communicator& group, FarCopies&) {
    ASSERT_OK_AND_ASSIGN(const auto part, group.Split(group.rank() == 0 ? -1 : 0, 0));
    if (group.rank() == 0) {
      EXPECT_EQ(part, nullptr);
      return;
    }
    Floats sum = {1.0f};
    EXPECT_OK(part->AllReduce(ElementType::kFloat32, Far(sum.data()), 1));
    EXPECT_THAT(sum, ElementsAre(2.0f));
  });
}

TEST(StagedCommunicator, ErrorsOfCallsAndCopiesAreTold) {
  OnRanks([](Communicator& group, FarCopies& copies) {
    Floats numbers(3);
    EXPECT_THAT(group.AllReduce(ElementType::kFloat32, Far(numbers.data()), -1),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("count is negative")));
    EXPECT_THAT(group.AllReduce(ElementType::kFloat32, nullptr, 1),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("send is null")));
    EXPECT_THAT(group.AllReduce(ElementType::kByte, Far(numbers.data()), 1),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("added up")));
    copies.fails = true;
    EXPECT_THAT(group.AllReduce(ElementType::kFloat32, Far(numbers.data()), 3),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("the copy failed")));
  });
}

TEST(StagedCommunicator, AnAbortEndsAllRanks) {
  OnRanks([](Communicator& group, FarCopies&) {
    if (group.rank() == 0) {
      group.Abort("enough");
      return;
    }
    Floats sum = {1.0f};
    EXPECT_THAT(group.AllReduce(ElementType::kFloat32, Far(sum.data()), 1),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
  });
}

}  // namespace
}  // namespace parplan
