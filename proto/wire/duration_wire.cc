#include "proto/wire/duration_wire.h"

#include <cmath>

#include "base/check.h"

namespace parplan {
namespace {

// Limits of duration.proto and timestamp.proto.
constexpr int32_t kMaxNanos = 999'999'999;
constexpr int64_t kMinTimestampSeconds = -62'135'596'800;  // 0001-01-01
constexpr int64_t kMaxTimestampSeconds = 253'402'300'799;  // 9999-12-31T23:59:59

// Below this many seconds a count of nanoseconds is exact in a double.
constexpr int64_t kExactSeconds = (int64_t{1} << 53) / 1'000'000'000;

google::protobuf::Duration MakeDuration(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

google::protobuf::Timestamp MakeTimestamp(int64_t seconds, int32_t nanos) {
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(seconds);
  timestamp.set_nanos(nanos);
  return timestamp;
}

absl::Status CheckDuration(const google::protobuf::Duration& duration, absl::string_view field,
                           Reason reason) {
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  if (seconds < -kMaxDurationSeconds || seconds > kMaxDurationSeconds || nanos < -kMaxNanos ||
      nanos > kMaxNanos) {
    return FieldError(reason, field, "a Duration holds at most 315576000000 seconds");
  }
  if ((seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0)) {
    return FieldError(reason, field, "seconds and nanos of a Duration have the same sign");
  }
  return absl::OkStatus();
}

}  // namespace

google::protobuf::Duration DurationToProto(Seconds seconds) {
  const double value = seconds.value();
  PARPLAN_CHECK(!std::isnan(value));
  if (value >= kMaxDurationSeconds) return MakeDuration(kMaxDurationSeconds, 0);
  if (value <= -kMaxDurationSeconds) return MakeDuration(-kMaxDurationSeconds, 0);
  const double whole = std::trunc(value);
  int64_t whole_seconds = static_cast<int64_t>(whole);
  int64_t nanos = std::llround((value - whole) * 1e9);
  if (nanos == 1'000'000'000 || nanos == -1'000'000'000) {
    whole_seconds += nanos > 0 ? 1 : -1;
    nanos = 0;
  }
  return MakeDuration(whole_seconds, static_cast<int32_t>(nanos));
}

google::protobuf::Duration DurationToProto(absl::Duration duration) {
  if (duration >= absl::Seconds(kMaxDurationSeconds)) return MakeDuration(kMaxDurationSeconds, 0);
  if (duration <= -absl::Seconds(kMaxDurationSeconds)) {
    return MakeDuration(-kMaxDurationSeconds, 0);
  }
  absl::Duration rest;
  const int64_t whole_seconds = absl::IDivDuration(duration, absl::Seconds(1), &rest);
  // Abseil counts quarters of a nanosecond; halves are rounded away from zero.
  const absl::Duration half = absl::Nanoseconds(1) / 2;
  const int64_t nanos =
      absl::ToInt64Nanoseconds(rest < absl::ZeroDuration() ? rest - half : rest + half);
  if (nanos == 1'000'000'000 || nanos == -1'000'000'000) {
    return MakeDuration(whole_seconds + (nanos > 0 ? 1 : -1), 0);
  }
  return MakeDuration(whole_seconds, static_cast<int32_t>(nanos));
}

absl::StatusOr<Seconds> SecondsFromProto(const google::protobuf::Duration& duration,
                                         absl::string_view field, Reason reason) {
  const absl::Status status = CheckDuration(duration, field, reason);
  if (!status.ok()) return status;
  const int64_t seconds = duration.seconds();
  if (seconds < kExactSeconds && seconds > -kExactSeconds) {
    return Seconds::Of(static_cast<double>(seconds * 1'000'000'000 + duration.nanos()) / 1e9);
  }
  return Seconds::Of(static_cast<double>(seconds) + duration.nanos() * 1e-9);
}

absl::StatusOr<absl::Duration> DurationFromProto(const google::protobuf::Duration& duration,
                                                 absl::string_view field, Reason reason) {
  const absl::Status status = CheckDuration(duration, field, reason);
  if (!status.ok()) return status;
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

google::protobuf::Timestamp TimestampToProto(absl::Time time) {
  if (time < absl::FromUnixSeconds(kMinTimestampSeconds)) {
    return MakeTimestamp(kMinTimestampSeconds, 0);
  }
  if (time >= absl::FromUnixSeconds(kMaxTimestampSeconds + 1)) {
    return MakeTimestamp(kMaxTimestampSeconds, kMaxNanos);
  }
  const int64_t seconds = absl::ToUnixSeconds(time);  // Rounds towards the past.
  const int64_t nanos = absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds));
  return MakeTimestamp(seconds, static_cast<int32_t>(nanos));
}

absl::StatusOr<absl::Time> TimestampFromProto(const google::protobuf::Timestamp& timestamp,
                                              absl::string_view field, Reason reason) {
  if (timestamp.seconds() < kMinTimestampSeconds || timestamp.seconds() > kMaxTimestampSeconds ||
      timestamp.nanos() < 0 || timestamp.nanos() > kMaxNanos) {
    return FieldError(reason, field, "a Timestamp lies between the years 1 and 9999");
  }
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

}  // namespace parplan
