#include "planner/search/base/tick_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace parplan {
namespace {

TEST(TickScale, GivesTheLargestTimeBetween2To50And2To51Ticks) {
  for (const double largest : {1e-9, 0.7, 1.0, 1.5, 3.0, 1e6}) {
    const int64_t ticks = TickScale(Seconds::Of(largest)).ToTicks(Seconds::Of(largest));
    EXPECT_GE(ticks, int64_t{1} << 50) << largest;
    EXPECT_LE(ticks, int64_t{1} << 51) << largest;
  }
}

TEST(TickScale, RoundsToHalfATick) {
  const TickScale scale(Seconds::Of(10.0));
  for (double time = 1e-6; time < 10.0; time *= 1.7) {
    const Seconds back = scale.ToSeconds(scale.ToTicks(Seconds::Of(time)));
    EXPECT_NEAR(back.value(), time, 1e-15 * 10.0);
  }
}

TEST(TickScale, TicksComeBackUnchanged) {
  const TickScale scale(Seconds::Of(2.5));
  for (int64_t ticks = 1; ticks < int64_t{1} << 52; ticks = 3 * ticks + 1) {
    EXPECT_EQ(scale.ToTicks(scale.ToSeconds(ticks)), ticks);
  }
}

// Sums of doubles depend on their order; sums of ticks do not.
TEST(TickScale, SumsDoNotDependOnTheirOrder) {
  const std::vector<double> times = {0.1, 0.2, 0.3, 1e-9, 0.7};
  const TickScale scale(Seconds::Of(2.0));
  int64_t forward = 0;
  int64_t backward = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    forward += scale.ToTicks(Seconds::Of(times[i]));
    backward += scale.ToTicks(Seconds::Of(times[times.size() - 1 - i]));
  }
  EXPECT_EQ(forward, backward);
  EXPECT_NEAR(scale.ToSeconds(forward).value(), 1.300000001, 1e-14);
}

TEST(TickScale, NothingHasZeroTicks) {
  EXPECT_EQ(TickScale(Seconds()).ToTicks(Seconds()), 0);
  EXPECT_EQ(TickScale(Seconds::Of(5.0)).ToSeconds(0), Seconds());
}

TEST(TickScaleDeathTest, RefusesATimeThatIsNotFiniteOrNegative) {
  EXPECT_DEATH(TickScale{Seconds::Infinite()}, "check failed");
  EXPECT_DEATH(TickScale{Seconds::Of(-1.0)}, "check failed");
}

}  // namespace
}  // namespace parplan
