// Conversion of JSON values to values of a message's fields. `ParseJson` (json_file.h) reads fields
// by it.

#ifndef PARPLAN_PROTO_WIRE_JSON_FIELD_H_
#define PARPLAN_PROTO_WIRE_JSON_FIELD_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json/json_text.h"

namespace parplan {

// Each function returns the value, or INVALID_ARGUMENT without a `Reason` whose message is the rule
// that is broken; the caller adds file, line and path.

// Reads a whole number within [min, max], with `allow_string` also from a string of digits, perhaps
// behind `-`. A number such as 1e9 is whole; with a point or an exponent it is at most 2^53.
absl::StatusOr<int64_t> JsonInteger(const JsonValue& value, int64_t min, int64_t max,
                                    bool allow_string);
// Read a number, which is finite, `true` or `false`, and a text; a text of digits, `"NaN"` or
// `"Infinity"` is no number.
absl::StatusOr<double> JsonNumber(const JsonValue& value);
absl::StatusOr<bool> JsonBoolean(const JsonValue& value);
absl::StatusOr<std::string> JsonString(const JsonValue& value);
// Reads Base64 in either alphabet, with padding or without; white space in it is skipped.
absl::StatusOr<std::string> JsonBytes(const JsonValue& value);
// Reads the full name of a value of `descriptor`, that of 0 included, and returns its number; a
// number is refused.
absl::StatusOr<int> JsonEnum(const JsonValue& value,
                             const google::protobuf::EnumDescriptor& descriptor);
// Reads seconds with up to nine decimals, `"0.005s"`, which may be negative.
absl::StatusOr<google::protobuf::Duration> JsonDuration(const JsonValue& value);
// Reads RFC 3339 with any offset, `"2022-06-01T00:00:00Z"`, of the years 1 to 9999; rounds down to
// the nanosecond.
absl::StatusOr<google::protobuf::Timestamp> JsonTimestamp(const JsonValue& value);

// Returns `; did you mean `x`?` with the name most similar to `given`, the first of equally similar
// ones, or an empty text if none is similar: more than 2 edits away, or more than a third of the
// characters of a longer text. Cases do not count.
std::string DidYouMean(absl::string_view given, const std::vector<std::string>& names);

// Returns the type of a value for messages: `a string`, `an object`.
absl::string_view JsonTypeName(const JsonValue& value);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_JSON_FIELD_H_
