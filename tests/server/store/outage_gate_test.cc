#include "server/store/outage_gate.h"

#include <gtest/gtest.h>

namespace parplan {
namespace {

constexpr absl::Duration kOutageBegin = absl::Hours(3);
const absl::Status kOutOfReach = absl::UnavailableError("away");

OutageGate MakeGate() { return OutageGate(absl::Seconds(25)); }

// Each call waits 5 s for a database that restarts.
TEST(OutageGate, ShutsOnceTheDatabaseHasBeenAwayForTooLong) {
  OutageGate gate = MakeGate();
  for (int call = 0; call < 4; ++call) {
    const absl::Duration start = kOutageBegin + call * absl::Seconds(5);
    EXPECT_FALSE(gate.Failed(start, start + absl::Seconds(5), kOutOfReach));
    EXPECT_FALSE(gate.is_shut());
  }
  EXPECT_TRUE(
      gate.Failed(kOutageBegin + absl::Seconds(20), kOutageBegin + absl::Seconds(25), kOutOfReach));
  EXPECT_TRUE(gate.is_shut());
  EXPECT_EQ(gate.cause(), kOutOfReach);
  EXPECT_EQ(gate.outage_start(), kOutageBegin);
  // Only the first says so.
  EXPECT_FALSE(
      gate.Failed(kOutageBegin, kOutageBegin + absl::Seconds(30), absl::InternalError("later")));
  EXPECT_EQ(gate.cause(), kOutOfReach);
}

TEST(OutageGate, OneCallThatHasNoAnswerForSoLongShutsIt) {
  OutageGate gate = MakeGate();
  EXPECT_TRUE(gate.Failed(kOutageBegin, kOutageBegin + absl::Seconds(30), kOutOfReach));
}

TEST(OutageGate, ASlowCallAmongOthersThatSucceedDoesNotShutIt) {
  OutageGate gate = MakeGate();
  gate.Succeeded(kOutageBegin + absl::Seconds(29));
  EXPECT_FALSE(gate.Failed(kOutageBegin, kOutageBegin + absl::Seconds(30), kOutOfReach));
  EXPECT_FALSE(gate.is_shut());
}

TEST(OutageGate, ASuccessOpensItAndEndsTheOutage) {
  OutageGate gate = MakeGate();
  EXPECT_TRUE(gate.Failed(kOutageBegin, kOutageBegin + absl::Seconds(30), kOutOfReach));
  gate.Succeeded(kOutageBegin + absl::Seconds(31));
  EXPECT_FALSE(gate.is_shut());
  // The next outage is tolerated as the first was.
  EXPECT_FALSE(
      gate.Failed(kOutageBegin + absl::Seconds(32), kOutageBegin + absl::Seconds(37), kOutOfReach));
  EXPECT_TRUE(
      gate.Failed(kOutageBegin + absl::Seconds(52), kOutageBegin + absl::Seconds(57), kOutOfReach));
}

// The first call of a server that slept for long.
TEST(OutageGate, IdleTimeIsNoOutage) {
  OutageGate gate = MakeGate();
  gate.Succeeded(kOutageBegin);
  const absl::Duration later = kOutageBegin + absl::Hours(5);
  EXPECT_FALSE(gate.Failed(later, later + absl::Seconds(5), kOutOfReach));
}

TEST(OutageGate, TwoFailuresHoursApartAreTwoOutages) {
  OutageGate gate = MakeGate();
  EXPECT_FALSE(gate.Failed(kOutageBegin, kOutageBegin + absl::Seconds(5), kOutOfReach));
  const absl::Duration later = kOutageBegin + absl::Hours(5);
  EXPECT_FALSE(gate.Failed(later, later + absl::Seconds(5), kOutOfReach));
  EXPECT_FALSE(gate.is_shut());
  EXPECT_TRUE(gate.Failed(later + absl::Seconds(20), later + absl::Seconds(25), kOutOfReach));
  EXPECT_EQ(gate.outage_start(), later);
}

}  // namespace
}  // namespace parplan
