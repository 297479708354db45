#include "executor/device/comm/timed_communicator.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/executor/device/comm/rank_threads.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(TimedCommunicator, CountsWhatItsOwnerSpendsInIt) {
  RunRanks(2, {.spin_count = 50}, [](JobFabric& fabric) {
    // A clock that is a second later whenever it is asked.
    absl::Duration now;
    WaitMeter meter;
    meter.now = [&now] { return now += absl::Seconds(1); };
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Communicator> inner, fabric.MakeGroup("all", {0, 1}));
    TimedCommunicator timed(std::move(inner), &meter);
    double value = fabric.rank() + 1.0;
    ASSERT_OK(timed.AllReduce(ElementType::kFloat64, &value, 1));
    EXPECT_EQ(value, 3.0);
    EXPECT_EQ(meter.waited, absl::Seconds(1));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PendingWork> work,
                         timed.Start({.operation = Operation::kAllReduce,
                                      .type = ElementType::kFloat64,
                                      .count = 1,
                                      .send = &value,
                                      .receive = &value}));
    EXPECT_EQ(meter.waited, absl::Seconds(2));
    ASSERT_OK(work->Wait());
    EXPECT_EQ(value, 6.0);
    EXPECT_EQ(meter.waited, absl::Seconds(3));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> part, timed.Split(0, fabric.rank()));
    ASSERT_OK(part->Barrier());
    EXPECT_EQ(meter.waited, absl::Seconds(5));
    EXPECT_EQ(timed.size(), 2);
    EXPECT_EQ(timed.Stats().entries[static_cast<int>(Operation::kAllReduce)].call_count, 2);
  });
}

}  // namespace
}  // namespace parplan
