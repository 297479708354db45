// JSON values as values of a message's fields, by reflection.

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

// Each gives the value, or a status whose message is the rule that is broken;
// the caller knows file, line and path.

// Whole numbers within [min, max]; as a string of digits too where
// `allow_string`. A number such as 1e9 is whole.
absl::StatusOr<int64_t> JsonInteger(const JsonValue& value, int64_t min, int64_t max,
                                    bool allow_string);
absl::StatusOr<double> JsonNumber(const JsonValue& value);
absl::StatusOr<bool> JsonBoolean(const JsonValue& value);
absl::StatusOr<std::string> JsonString(const JsonValue& value);
// Base64, with either alphabet.
absl::StatusOr<std::string> JsonBytes(const JsonValue& value);
// The number of a value of `descriptor`, given by its full name.
absl::StatusOr<int> JsonEnum(const JsonValue& value,
                             const google::protobuf::EnumDescriptor& descriptor);
// Seconds with up to nine decimals, `"0.005s"`.
absl::StatusOr<google::protobuf::Duration> JsonDuration(const JsonValue& value);
// RFC 3339, `"2022-06-01T00:00:00Z"`.
absl::StatusOr<google::protobuf::Timestamp> JsonTimestamp(const JsonValue& value);

// `; did you mean `x`?` with the name nearest to `given`, or nothing when none
// is near.
std::string DidYouMean(absl::string_view given, const std::vector<std::string>& names);

// What a value is, for messages: `a string`, `an object`.
absl::string_view JsonTypeName(const JsonValue& value);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_JSON_FIELD_H_
