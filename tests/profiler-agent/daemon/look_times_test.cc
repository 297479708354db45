#include "profiler-agent/daemon/look_times.h"

#include <gtest/gtest.h>

namespace parplan {
namespace {

constexpr absl::Duration kStart = absl::Hours(1000);

constexpr LookTimes::Pauses kPauses = {.busy_pause = absl::Minutes(5),
                                       .drift_pause = absl::Minutes(10)};

TEST(LookTimes, BeginAtOnceAndThenEveryHour) {
  LookTimes times(kPauses);
  EXPECT_LT(times.next(), kStart);
  times.Looked(kStart);
  EXPECT_EQ(times.next(), kStart + absl::Hours(1));
}

TEST(LookTimes, DriftIsMeasuredAfterItsPause) {
  LookTimes times(kPauses);
  times.Looked(kStart);
  times.Measured(kStart, /*has_rest=*/false);
  EXPECT_EQ(times.next(), kStart + absl::Hours(1));
  times.FoundDrift(kStart + absl::Minutes(1));
  EXPECT_EQ(times.next(), kStart + absl::Minutes(10));
  times.FoundDrift(kStart + absl::Minutes(20));
  EXPECT_EQ(times.next(), kStart + absl::Minutes(10)) << "never later than before";
  times.Looked(kStart + absl::Minutes(20));
  times.FoundDrift(kStart + absl::Minutes(21));
  EXPECT_EQ(times.next(), kStart + absl::Minutes(21));
}

// The jobs that leave windows with drift are those that keep the node busy.
TEST(LookTimes, DriftShortensNoPauseAfterABusyNode) {
  LookTimes times(kPauses);
  times.Measured(kStart, /*has_rest=*/false);
  absl::Duration now = kStart + absl::Hours(1);
  for (int i = 0; i < 3; ++i) {
    times.Looked(now);
    times.FoundBusy(now);
    for (int second = 10; second < 300; second += 10) {
      times.FoundDrift(now + absl::Seconds(second));
      EXPECT_EQ(times.next(), now + absl::Minutes(5));
    }
    now += absl::Minutes(5);
  }
}

TEST(LookTimes, DriftShortensNoPauseAfterAFailure) {
  LookTimes times(kPauses);
  absl::Duration now = kStart;
  for (const int minutes : {1, 2, 4, 8, 16, 32, 60, 60}) {
    times.Looked(now);
    times.Failed(now);
    times.FoundDrift(now + absl::Seconds(10));
    EXPECT_EQ(times.next(), now + absl::Minutes(minutes));
    now = times.next();
  }
  times.FoundBusy(now);
  times.Failed(now);
  EXPECT_EQ(times.next(), now + absl::Minutes(1)) << "the pauses begin anew";
}

TEST(LookTimes, ABusyNodeShortensNoPauseBeforeDrift) {
  LookTimes times(kPauses);
  times.Measured(kStart, /*has_rest=*/true);
  EXPECT_EQ(times.next(), kStart + absl::Minutes(1));
  times.FoundBusy(kStart + absl::Minutes(1));
  times.Looked(kStart + absl::Minutes(6));
  times.FoundDrift(kStart + absl::Minutes(7));
  EXPECT_EQ(times.next(), kStart + absl::Minutes(10));
}

TEST(LookTimes, ALentNodeIsLookedAtWhenTheLeaseEnds) {
  LookTimes times(kPauses);
  times.Looked(kStart);
  times.FoundLent(kStart);
  EXPECT_EQ(times.next(), kStart);
}

}  // namespace
}  // namespace parplan
