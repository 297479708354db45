#include "solve/shared_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace parplan {
namespace {

using ::testing::Optional;

class SetClock : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + time; }
  absl::Duration Steady() const override { return time; }
  absl::Duration time;
};

TEST(SharedTime, LeavesHalfOfAnEqualShareToEachLaterSearch) {
  SetClock clock;
  SharedTime time(clock, absl::Seconds(40), 4);
  // Each takes all it gets.
  EXPECT_THAT(time.Next(), Optional(absl::Seconds(25)));
  clock.time += absl::Seconds(25);
  EXPECT_THAT(time.Next(), Optional(absl::Seconds(5)));
  clock.time += absl::Seconds(5);
  EXPECT_THAT(time.Next(), Optional(absl::Seconds(5)));
  // Easy ones leave theirs to others.
  clock.time += absl::Seconds(1);
  EXPECT_THAT(time.Next(), Optional(absl::Seconds(9)));
}

TEST(SharedTime, DividesEquallyWhatIsLessThanTheHalfShares) {
  SetClock clock;
  SharedTime time(clock, absl::Seconds(40), 4);
  EXPECT_TRUE(time.Next().has_value());
  // Longer than it was given.
  clock.time += absl::Seconds(34);
  EXPECT_THAT(time.Next(), Optional(absl::Seconds(2)));
}

TEST(SharedTime, OnlyTheFirstSearchBeginsAfterTheLimit) {
  SetClock clock;
  SharedTime time(clock, absl::ZeroDuration(), 3);
  EXPECT_THAT(time.Next(), Optional(absl::ZeroDuration()));
  EXPECT_EQ(time.Next(), std::nullopt);
  SharedTime longer(clock, absl::Seconds(1), 2);
  EXPECT_TRUE(longer.Next().has_value());
  clock.time += absl::Seconds(1);
  EXPECT_EQ(longer.Next(), std::nullopt);
}

TEST(SharedTime, HasNoLimitIfThatIsInfinite) {
  SetClock clock;
  SharedTime time(clock, absl::InfiniteDuration(), 2);
  for (int search = 0; search < 3; ++search) {
    EXPECT_THAT(time.Next(), Optional(absl::InfiniteDuration()));
    clock.time += absl::Hours(1);
  }
}

}  // namespace
}  // namespace parplan
