#include "server/main/upkeep.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <vector>

namespace parplan {
namespace {

Upkeep::Work Every(absl::Duration maintain, absl::Duration look) {
  return {.maintain = [] { return false; },
          .look = [] {},
          .maintain_interval = maintain,
          .look_interval = look};
}

TEST(Upkeep, MaintainsFirstAndLooksThen) {
  std::promise<std::string> done;
  std::string order;
  Upkeep::Work work = Every(absl::Hours(1), absl::Hours(1));
  work.maintain = [&order] {
    order += "maintain ";
    return false;
  };
  work.look = [&order, &done] {
    order += "look";
    done.set_value(order);
  };
  const Upkeep upkeep(work);
  EXPECT_EQ(done.get_future().get(), "maintain look");
}

TEST(Upkeep, ComesAgainAfterItsIntervalsAndWhenAsked) {
  std::atomic<int> looks = 0;
  std::atomic<int> maintained = 0;
  Upkeep::Work work = Every(absl::Hours(1), absl::Milliseconds(1));
  work.look = [&looks] { ++looks; };
  work.maintain = [&maintained] {
    ++maintained;
    return false;
  };
  {
    Upkeep upkeep(work);
    while (looks < 3) std::this_thread::yield();
    EXPECT_EQ(maintained, 1);
    upkeep.MaintainNow();
    while (maintained < 2) std::this_thread::yield();
  }
  work.look_interval = absl::Hours(1);
  work.maintain_interval = absl::Milliseconds(1);
  const Upkeep upkeep(work);
  while (maintained < 5) std::this_thread::yield();
}

// A database that does not answer holds up nobody but the thread.
TEST(Upkeep, NobodyWaitsForACallInProgress) {
  std::promise<void> begun;
  std::promise<void> answer;
  std::atomic<int> looks = 0;
  std::atomic<int> maintained = 0;
  std::atomic<bool> is_answered = false;
  Upkeep::Work work = Every(absl::Hours(1), absl::Milliseconds(1));
  work.maintain = [&maintained] {
    ++maintained;
    return false;
  };
  work.look = [&] {
    if (++looks > 1) return;
    begun.set_value();
    answer.get_future().wait();
    is_answered = true;
  };
  {
    Upkeep upkeep(work);
    begun.get_future().wait();
    upkeep.MaintainNow();
    upkeep.Stop();
    // Neither waited for the call.
    EXPECT_FALSE(is_answered);
    answer.set_value();
  }
  // The destructor did, and nothing has begun since.
  EXPECT_TRUE(is_answered);
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(maintained, 1);
}

// The intervals are longer than the test.
TEST(Upkeep, WorkInPartsLeavesRoomToLookAndEndsWithThePartInProgress) {
  std::promise<void> begun;
  std::promise<void> answer;
  std::atomic<int> looks = 0;
  std::atomic<int> maintained = 0;
  Upkeep::Work work = Every(absl::Hours(1), absl::Hours(1));
  work.look = [&looks] { ++looks; };
  work.maintain = [&] {
    if (++maintained == 3) {
      begun.set_value();
      answer.get_future().wait();
    }
    return true;
  };
  {
    Upkeep upkeep(work);
    begun.get_future().wait();
    EXPECT_EQ(looks, 2);
    upkeep.Stop();
    answer.set_value();
  }
  EXPECT_EQ(maintained, 3);
  EXPECT_EQ(looks, 2);
}

}  // namespace
}  // namespace parplan
