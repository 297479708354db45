// Times as people write them in key files: RFC 3339, UTC when written. The files of keys and
// evidence have their times in this form.

#ifndef PARPLAN_PROTO_ENVELOPE_RFC3339_H_
#define PARPLAN_PROTO_ENVELOPE_RFC3339_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace parplan {

// Formats a time, for example `2026-01-31T12:00:00Z`, with a fraction of a second if there is one.
// REQUIRES: `IsRfc3339Time(time)`, which is not checked.
std::string FormatRfc3339(absl::Time time);

// Parses a time with any offset. Returns nothing for all else: white space, `infinite-future`,
// years outside 1 to 9999.
std::optional<absl::Time> ParseRfc3339(absl::string_view text);

// Returns whether RFC 3339 and a protobuf `Timestamp` can represent the time: the years 1 to 9999.
bool IsRfc3339Time(absl::Time time);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_RFC3339_H_
