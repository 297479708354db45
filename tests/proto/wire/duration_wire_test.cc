#include "proto/wire/duration_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/proto/wire/random_values.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

google::protobuf::Duration Of(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

TEST(DurationWire, KeepsEveryNanosecondBelow97Days) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomValues random(seed);
    const google::protobuf::Duration duration =
        Of(random.Integer(0, 8'388'607), static_cast<int32_t>(random.Integer(0, 999'999'999)));
    ASSERT_OK_AND_ASSIGN(const Seconds seconds, SecondsFromProto(duration, "d"));
    EXPECT_EQ(DurationToProto(seconds).DebugString(), duration.DebugString());
    ASSERT_OK_AND_ASSIGN(const absl::Duration exact, DurationFromProto(duration, "d"));
    EXPECT_EQ(DurationToProto(exact).DebugString(), duration.DebugString());
  }
}

TEST(DurationWire, RoundsToTheNearestNanosecond) {
  EXPECT_EQ(DurationToProto(Seconds::Of(1.4e-9)).nanos(), 1);
  EXPECT_EQ(DurationToProto(Seconds::Of(1.6e-9)).nanos(), 2);
  EXPECT_EQ(DurationToProto(Seconds::Of(-1.6e-9)).nanos(), -2);
  EXPECT_EQ(DurationToProto(Seconds::Of(1.9999999999)).seconds(), 2);
  EXPECT_EQ(DurationToProto(Seconds::Of(1.9999999999)).nanos(), 0);
  EXPECT_EQ(DurationToProto(absl::Nanoseconds(1.5)).nanos(), 2);
  EXPECT_EQ(DurationToProto(-absl::Nanoseconds(1.5)).nanos(), -2);
}

TEST(DurationWire, CutsWhatADurationCannotHold) {
  EXPECT_EQ(DurationToProto(Seconds::Infinite()).seconds(), 315'576'000'000);
  EXPECT_EQ(DurationToProto(absl::InfiniteDuration()).seconds(), 315'576'000'000);
  EXPECT_EQ(DurationToProto(-absl::InfiniteDuration()).seconds(), -315'576'000'000);
}

TEST(DurationWire, RefusesWhatDurationProtoForbids) {
  for (const google::protobuf::Duration& bad :
       {Of(315'576'000'001, 0), Of(0, 1'000'000'000), Of(1, -1), Of(-1, 1), Of(INT64_MIN, 0)}) {
    EXPECT_THAT(SecondsFromProto(bad, "a.b", Reason::kProfileInvalid),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a.b: ")));
    EXPECT_THAT(DurationFromProto(bad, "a.b"), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(TimestampWire, RoundTrips) {
  for (const int64_t seconds : {int64_t{-62'135'596'800}, int64_t{-1}, int64_t{0},
                                int64_t{1'700'000'000}, int64_t{253'402'300'799}}) {
    google::protobuf::Timestamp timestamp;
    timestamp.set_seconds(seconds);
    timestamp.set_nanos(999'999'999);
    ASSERT_OK_AND_ASSIGN(const absl::Time time, TimestampFromProto(timestamp, "t"));
    EXPECT_EQ(TimestampToProto(time).DebugString(), timestamp.DebugString());
  }
}

TEST(TimestampWire, CutsAndRefusesTheYearsItCannotHold) {
  EXPECT_EQ(TimestampToProto(absl::InfiniteFuture()).seconds(), 253'402'300'799);
  EXPECT_EQ(TimestampToProto(absl::InfinitePast()).seconds(), -62'135'596'800);
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(253'402'300'800);
  EXPECT_THAT(TimestampFromProto(timestamp, "t"), StatusIs(absl::StatusCode::kInvalidArgument));
  timestamp.set_seconds(0);
  timestamp.set_nanos(-1);
  EXPECT_THAT(TimestampFromProto(timestamp, "t"), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace parplan
