// Messages as files that people read and write: proto JSON, read strictly.

#ifndef PARPLAN_PROTO_WIRE_JSON_FILE_H_
#define PARPLAN_PROTO_WIRE_JSON_FILE_H_

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/json/json_text.h"

namespace parplan {

// Most errors that one call reports.
inline constexpr int kMaxJsonErrors = 20;

// Reads `text`, the content of `file_name`, into `message`, which is cleared
// first. Fields are named as in the .proto (`layer_runs`) or in lowerCamelCase.
// INVALID_ARGUMENT (SPEC_INVALID) with up to kMaxJsonErrors errors, one a line,
// each with file, line, path and what to write instead:
//
//   model.json:7: layer_definitions[0].hiden_size: no such field of
//   LayerDefinition; did you mean `hidden_size`?
//
// Refused: unknown and repeated fields, two members of a oneof, null, wrong
// types, numbers out of range, enum values that do not exist (all that do are
// listed), a Duration that is not seconds like "0.005s", a Timestamp that is not
// RFC 3339, files beyond the limits above. 64-bit integers may be numbers or
// strings of digits. `field` and `rule` in the metadata are of the first error.
//
// When it fails, `message` holds what could be read; do not use it.
absl::Status ParseJson(absl::string_view text, absl::string_view file_name,
                       google::protobuf::Message* message);

// Proto JSON with 2 spaces a level, field names and order as in the .proto,
// fields at their default left out, durations as seconds (`"0.005s"`), 64-bit
// integers as strings, and a newline at the end. What `ParseJson` reads back to
// an equal message. A message that JSON can't hold (a Duration out of range) is
// printed in Protobuf's text format.
std::string ToReadableJson(const google::protobuf::Message& message);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_JSON_FILE_H_
