// JSON as a tree of values that know their line.

#ifndef PARPLAN_PROTO_WIRE_JSON_TEXT_H_
#define PARPLAN_PROTO_WIRE_JSON_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

struct JsonValue {
  enum class Type { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject };

  Type type = Type::kNull;
  // Counted from 1.
  int line = 1;
  // The member's name where the value stands in an object.
  std::string key;

  bool boolean = false;
  // Of kInteger, a whole number that fits 64 bits.
  int64_t integer = 0;
  // Of kInteger and kNumber.
  double number = 0;
  // Of kString.
  std::string text;
  // Of kArray and kObject, in the order of the text; keys may repeat.
  std::vector<JsonValue> items;
};

// Reads one JSON value. INVALID_ARGUMENT (SPEC_INVALID), `file_name:line: ...`,
// for text that is not JSON in UTF-8, is nested deeper than kMaxJsonDepth or
// longer than kMaxJsonBytes (json_file.h), or holds more than two million values.
absl::StatusOr<JsonValue> ReadJsonText(absl::string_view text, absl::string_view file_name);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_JSON_TEXT_H_
