#include "proto/wire/json_file.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json/json_text.h"
#include "base/status_macros.h"
#include "proto/wire/json_message.h"

namespace parplan {
namespace {

using google::protobuf::Message;

// Doubles the indentation, which Protobuf makes one space per level.
std::string DoubleIndentation(absl::string_view json) {
  std::string doubled;
  doubled.reserve(json.size() + json.size() / 8);
  for (const absl::string_view line : absl::StrSplit(json, '\n')) {
    const size_t indentation = std::min(line.find_first_not_of(' '), line.size());
    if (line.empty()) continue;
    doubled.append(2 * indentation, ' ');
    absl::StrAppend(&doubled, line.substr(indentation), "\n");
  }
  return doubled;
}

}  // namespace

absl::Status ParseJson(absl::string_view text, absl::string_view file_name, Message* message) {
  message->Clear();
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue root, ReadJsonText(text, file_name));
  return ReadJsonMessage(root, file_name, "", message);
}

std::string ToReadableJson(const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) {
    return message.DebugString();
  }
  return DoubleIndentation(json);
}

}  // namespace parplan
