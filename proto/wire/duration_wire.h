// Conversion of durations and times between the planner's doubles, Abseil's values and Protobuf's
// well-known types. The other conversions of this folder, the server, the agent and the clients
// call it.

#ifndef PARPLAN_PROTO_WIRE_DURATION_WIRE_H_
#define PARPLAN_PROTO_WIRE_DURATION_WIRE_H_

#include <cstdint>

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/units.h"

namespace parplan {

// Largest number of seconds of a Duration (duration.proto), ten thousand years.
inline constexpr int64_t kMaxDurationSeconds = 315'576'000'000;

// Rounds to the nearest nanosecond, halves away from 0. Values beyond the range of a Duration,
// infinities included, become its nearest end (`kMaxDurationSeconds` or its negative). REQUIRES:
// not NaN; aborts otherwise.
google::protobuf::Duration DurationToProto(Seconds seconds);
google::protobuf::Duration DurationToProto(absl::Duration duration);

// Returns the exact number of nanoseconds as the nearest double of seconds: below 97 days
// `DurationToProto(*SecondsFromProto(d))` is `d`. INVALID_ARGUMENT (`reason`) naming `field` for a
// Duration that breaks the rules of duration.proto: out of range, or seconds and nanos of different
// signs. An absent message reads as 0, so the caller looks whether it is there.
absl::StatusOr<Seconds> SecondsFromProto(const google::protobuf::Duration& duration,
                                         absl::string_view field,
                                         Reason reason = Reason::kSpecInvalid);
absl::StatusOr<absl::Duration> DurationFromProto(const google::protobuf::Duration& duration,
                                                 absl::string_view field,
                                                 Reason reason = Reason::kSpecInvalid);

// Rounds down to the nanosecond. Times outside the years 1 to 9999 become the nearest end of that
// range.
google::protobuf::Timestamp TimestampToProto(absl::Time time);

// Returns the time of a Timestamp. INVALID_ARGUMENT (`reason`) naming `field` if it is outside the
// years 1 to 9999 or has nanos out of range. An absent message reads as the beginning of 1970.
absl::StatusOr<absl::Time> TimestampFromProto(const google::protobuf::Timestamp& timestamp,
                                              absl::string_view field,
                                              Reason reason = Reason::kSpecInvalid);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_DURATION_WIRE_H_
