#include "proto/envelope/key_store_state.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/envelope/key_id.h"
#include "proto/envelope/rfc3339.h"
#include "proto/envelope/strict_json.h"
#include "proto/envelope/trust_bundle.h"

namespace parplan {
namespace {

constexpr size_t kMaxStateBytes = size_t{1} << 20;
constexpr Reason kReason = Reason::kStoreUnavailable;

absl::StatusOr<absl::Time> GetTime(const JsonValue& entry, absl::string_view field,
                                   absl::string_view member) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, GetString(entry, field, member, kReason));
  const std::optional<absl::Time> time = ParseRfc3339(text);
  if (!time) return FieldError(kReason, absl::StrCat(field, ".", member), "must be a time");
  return *time;
}

absl::StatusOr<KeyStatus> GetStatus(const JsonValue& entry, absl::string_view field) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, GetString(entry, field, "status", kReason));
  for (const KeyStatus status : {KeyStatus::kActive, KeyStatus::kNext, KeyStatus::kRetired}) {
    if (KeyStatusName(status) == text) return status;
  }
  return FieldError(kReason, absl::StrCat(field, ".status"),
                    "must be `active`, `next` or `retired`");
}

absl::StatusOr<KeyInfo> KeyInfoFromJson(const JsonValue& entry, absl::string_view field) {
  PARPLAN_RETURN_IF_ERROR(CheckMembers(
      entry, field, {"key_id", "create_time", "not_before", "not_after", "status"}, kReason));
  KeyInfo key;
  PARPLAN_ASSIGN_OR_RETURN(key.key_id, GetString(entry, field, "key_id", kReason));
  if (!HasKeyIdForm(key.key_id)) {
    return FieldError(kReason, absl::StrCat(field, ".key_id"),
                      "must be 64 lower-case hexadecimal digits");
  }
  PARPLAN_ASSIGN_OR_RETURN(key.create_time, GetTime(entry, field, "create_time"));
  PARPLAN_ASSIGN_OR_RETURN(key.not_before, GetTime(entry, field, "not_before"));
  PARPLAN_ASSIGN_OR_RETURN(key.not_after, GetTime(entry, field, "not_after"));
  if (key.not_before >= key.not_after) {
    return FieldError(kReason, absl::StrCat(field, ".not_after"), "must come after `not_before`");
  }
  PARPLAN_ASSIGN_OR_RETURN(key.status, GetStatus(entry, field));
  return key;
}

absl::StatusOr<std::vector<KeyInfo>> Parse(absl::string_view json) {
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue document,
                           ParseStrictJson(json, "keys.json", kMaxStateBytes, kReason));
  PARPLAN_RETURN_IF_ERROR(CheckMembers(document, "keys.json", {"keys"}, kReason));
  const JsonValue* const entries = document.Find("keys");
  if (entries == nullptr || entries->type != JsonValue::Type::kArray || entries->items.empty() ||
      entries->items.size() > TrustBundle::kMaxKeyCount) {
    return FieldError(
        kReason, "keys",
        absl::StrCat("must be an array of 1 to ", TrustBundle::kMaxKeyCount, " keys"));
  }
  std::vector<KeyInfo> keys;
  for (const JsonValue& entry : entries->items) {
    const std::string field = absl::StrCat("keys[", keys.size(), "]");
    PARPLAN_ASSIGN_OR_RETURN(KeyInfo key, KeyInfoFromJson(entry, field));
    for (const KeyInfo& earlier : keys) {
      if (earlier.key_id == key.key_id) {
        return FieldError(kReason, absl::StrCat(field, ".key_id"), "comes twice");
      }
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace

absl::string_view KeyStatusName(KeyStatus status) {
  switch (status) {
    case KeyStatus::kActive:
      return "active";
    case KeyStatus::kNext:
      return "next";
    case KeyStatus::kRetired:
      return "retired";
  }
  return "unknown";
}

std::string KeyInfosToJson(const std::vector<KeyInfo>& keys) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const KeyInfo& key : keys) {
    nlohmann::ordered_json entry;
    entry["key_id"] = key.key_id;
    entry["create_time"] = FormatRfc3339(key.create_time);
    entry["not_before"] = FormatRfc3339(key.not_before);
    entry["not_after"] = FormatRfc3339(key.not_after);
    entry["status"] = std::string(KeyStatusName(key.status));
    entries.push_back(std::move(entry));
  }
  nlohmann::ordered_json document;
  document["keys"] = std::move(entries);
  return document.dump(2) + "\n";
}

absl::StatusOr<std::vector<KeyInfo>> KeyInfosFromJson(absl::string_view json) {
  absl::StatusOr<std::vector<KeyInfo>> keys = Parse(json);
  if (keys.ok()) return keys;
  return MakeError(absl::StatusCode::kFailedPrecondition, kReason,
                   absl::StrCat("keys.json is damaged (", keys.status().message(),
                                "); restore the folder of keys from a backup"));
}

}  // namespace parplan
