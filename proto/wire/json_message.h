// Messages in proto JSON that is parsed already, for files of which a message is only a part.
// `ParseJson` (json_file.h) reads whole files by it.

#ifndef PARPLAN_PROTO_WIRE_JSON_MESSAGE_H_
#define PARPLAN_PROTO_WIRE_JSON_MESSAGE_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/json/json_text.h"

namespace parplan {

// Reads `value`, a part of the file `file_name`, into `message`, which is not null and is cleared
// first. Rules and errors are those of `ParseJson`, whose lines are those of `value` and whose
// paths begin with `path`, the place of the message in the file; empty: the whole file.
absl::Status ReadJsonMessage(const JsonValue& value, absl::string_view file_name,
                             absl::string_view path, google::protobuf::Message* message);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_JSON_MESSAGE_H_
