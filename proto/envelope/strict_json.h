// JSON that has one reading. The parser of nlohmann-json keeps the last of two
// members of one name without a word, and nests as deep as memory allows; for
// keys and signatures both are refused.

#ifndef PARPLAN_PROTO_ENVELOPE_STRICT_JSON_H_
#define PARPLAN_PROTO_ENVELOPE_STRICT_JSON_H_

#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan {

// Parses `text`. INVALID_ARGUMENT with `reason`, naming `document`, where it is
// longer than `max_bytes`, is no JSON, repeats a member, or nests deeper than 8.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text, absl::string_view document,
                                               size_t max_bytes, Reason reason);

// INVALID_ARGUMENT where `value` is no object or has a member not in `known`.
// `field` is where it stands, for example `keys[0]`.
absl::Status CheckMembers(const nlohmann::json& value, absl::string_view field,
                          std::initializer_list<absl::string_view> known, Reason reason);

// The string `value[member]`. INVALID_ARGUMENT where absent or no string.
absl::StatusOr<std::string> GetString(const nlohmann::json& value, absl::string_view field,
                                      const char* member, Reason reason);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_STRICT_JSON_H_
