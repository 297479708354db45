// Messages as files that people read and write: proto JSON, parsed strictly. The programs read and
// write files of models, clusters, profiles and calibrations by it; signed plans are files of
// proto/envelope/envelope_json.h.

#ifndef PARPLAN_PROTO_WIRE_JSON_FILE_H_
#define PARPLAN_PROTO_WIRE_JSON_FILE_H_

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/json/json_text.h"

namespace parplan {

// Largest number of errors that one call reports.
inline constexpr int kMaxJsonErrors = 20;

// Parses `text`, the content of `file_name`, into `message`, which is not null and is cleared
// first. Fields are named as in the .proto (`layer_runs`) or in lowerCamelCase. INVALID_ARGUMENT
// (SPEC_INVALID) with up to kMaxJsonErrors errors, one per line, each with file, line, path and a
// correction:
//
//   model.json:7: layer_definitions[0].hiden_size: no such field of
//   LayerDefinition; did you mean `hidden_size`?
//
// Errors are unknown and repeated fields, two members of a oneof, null, wrong types, numbers out of
// range, enum values that do not exist (the message lists those that do), a Duration that is not
// seconds like "0.005s", a Timestamp that is not RFC 3339, and files beyond the limits of
// json_text.h. 64-bit integers may be strings of digits or numbers, at most 2^53 with a point or an
// exponent. `field` and `rule` in the metadata are those of the first error. A text that is not
// JSON has one error. Fields may be absent, and the rules of the .proto on their values are not
// checked.
//
// After an error `message` has the fields that could be read and must not be used.
absl::Status ParseJson(absl::string_view text, absl::string_view file_name,
                       google::protobuf::Message* message);

// Returns proto JSON with 2 spaces per level, field names and order as in the .proto, without
// fields at their default, with durations as seconds (`"0.005s"`), 64-bit integers as strings, and
// a newline at the end. `ParseJson` reads it back to an equal message, unless a number is not
// finite, an enum has a number without a name (it refuses both), or there are unknown fields, which
// are left out. A message that JSON cannot represent (a Duration out of range) is printed in
// Protobuf's text format.
std::string ToReadableJson(const google::protobuf::Message& message);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_JSON_FILE_H_
