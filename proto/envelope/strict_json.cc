#include "proto/envelope/strict_json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

// Keys and envelopes nest four levels deep.
constexpr int kMaxDepth = 8;

}  // namespace

absl::StatusOr<JsonValue> ParseStrictJson(absl::string_view text, absl::string_view document,
                                          size_t max_bytes, Reason reason) {
  absl::StatusOr<JsonValue> value = ReadJsonText(text, document,
                                                 {.max_bytes = max_bytes,
                                                  .max_depth = kMaxDepth,
                                                  .refuses_repeated_members = true,
                                                  .quotes_text = false});
  if (value.ok()) return value;
  return MakeError(
      absl::StatusCode::kInvalidArgument, reason, value.status().message(),
      {{"field", std::string(document)}, {"rule", std::string(value.status().message())}});
}

absl::Status CheckMembers(const JsonValue& value, absl::string_view field,
                          std::initializer_list<absl::string_view> known, Reason reason) {
  if (value.type != JsonValue::Type::kObject) {
    return FieldError(reason, field, "must be a JSON object");
  }
  for (const JsonValue& member : value.items) {
    if (std::find(known.begin(), known.end(), absl::string_view(member.key)) == known.end()) {
      return FieldError(reason, absl::StrCat(field, ".", member.key),
                        "is not known here; remove it or correct its name");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> GetString(const JsonValue& value, absl::string_view field,
                                      absl::string_view member, Reason reason) {
  const JsonValue* const found = value.Find(member);
  if (found == nullptr || found->type != JsonValue::Type::kString) {
    return FieldError(reason, absl::StrCat(field, ".", member), "is required, as a string");
  }
  return found->text;
}

}  // namespace parplan
