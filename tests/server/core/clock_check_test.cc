#include "server/core/clock_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/core/fakes.h"

namespace parplan {
namespace {

TEST(ClockCheck, OneReadingConfirmsNothingAndTwoAtAMomentAreOne) {
  FakeClock clock;
  ClockCheck check(clock);
  EXPECT_EQ(check.ConfirmedNow(), std::nullopt);
  EXPECT_EQ(check.ConfirmedNow(), std::nullopt);
  clock.Advance(ClockCheck::kMinConfirmation - absl::Seconds(1));
  EXPECT_EQ(check.ConfirmedNow(), std::nullopt);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(check.ConfirmedNow(), clock.Now());
  // From then on every reading that agrees.
  EXPECT_EQ(check.ConfirmedNow(), clock.Now());
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(check.ConfirmedNow(), clock.Now());
}

TEST(ClockCheck, AClockThatJumpedIsNotBelievedThereAndBack) {
  FakeClock clock;
  ClockCheck check(clock);
  (void)check.ConfirmedNow();
  clock.Advance(absl::Hours(1));
  EXPECT_EQ(check.ConfirmedNow(), clock.Now());
  for (const absl::Duration jump : {absl::Hours(24 * 365), -absl::Hours(24 * 365)}) {
    clock.Jump(jump);
    EXPECT_EQ(check.ConfirmedNow(), std::nullopt);
    clock.Advance(absl::Seconds(1));
    EXPECT_EQ(check.ConfirmedNow(), std::nullopt);
  }
  clock.Advance(ClockCheck::kMinConfirmation);
  EXPECT_EQ(check.ConfirmedNow(), clock.Now());
}

TEST(ClockCheck, WhatNtpCorrectsIsNoJump) {
  FakeClock clock;
  ClockCheck check(clock);
  (void)check.ConfirmedNow();
  clock.Advance(absl::Hours(1));
  clock.Jump(-ClockCheck::kDrift);
  EXPECT_EQ(check.ConfirmedNow(), clock.Now());
}

}  // namespace
}  // namespace parplan
