// JSON that has one reading, for keys and signatures: the reader of base/json with repeated members
// refused, little nesting and errors that quote no values, which may be secrets; they name members
// that are repeated or unknown. The readers of envelopes, trust bundles, keys.json, evidence and
// the spool of Slurm jobs parse with it.

#ifndef PARPLAN_PROTO_ENVELOPE_STRICT_JSON_H_
#define PARPLAN_PROTO_ENVELOPE_STRICT_JSON_H_

#include <cstddef>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/json/json_text.h"

namespace parplan {

// Parses `text`. INVALID_ARGUMENT with `reason`, naming `document` and the line, if it is longer
// than `max_bytes`, is not JSON, repeats a member, or nests deeper than 8.
absl::StatusOr<JsonValue> ParseStrictJson(absl::string_view text, absl::string_view document,
                                          size_t max_bytes, Reason reason);

// Returns INVALID_ARGUMENT (`reason`) if `value` is not an object or has a member not in `known`.
// `field` is its place in the document, for example `keys[0]`.
absl::Status CheckMembers(const JsonValue& value, absl::string_view field,
                          std::initializer_list<absl::string_view> known, Reason reason);

// Returns the string `value[member]`. INVALID_ARGUMENT (`reason`) naming `field.member` if it is
// absent or not a string, or `value` is not an object.
absl::StatusOr<std::string> GetString(const JsonValue& value, absl::string_view field,
                                      absl::string_view member, Reason reason);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_STRICT_JSON_H_
