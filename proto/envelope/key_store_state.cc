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
  for (const KeyStatus status :
       {KeyStatus::kActive, KeyStatus::kNext, KeyStatus::kRetired, KeyStatus::kRevoked}) {
    if (KeyStatusName(status) == text) return status;
  }
  return FieldError(kReason, absl::StrCat(field, ".status"),
                    "must be `active`, `next`, `retired` or `revoked`");
}

absl::StatusOr<KeyInfo> KeyInfoFromJson(const JsonValue& entry, absl::string_view field) {
  PARPLAN_RETURN_IF_ERROR(CheckMembers(
      entry, field, {"key_id", "create_time", "not_before", "not_after", "status", "revoke_time"},
      kReason));
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
  if (entry.Find("revoke_time") != nullptr) {
    PARPLAN_ASSIGN_OR_RETURN(key.revoke_time, GetTime(entry, field, "revoke_time"));
  }
  if (key.revoke_time.has_value() != (key.status == KeyStatus::kRevoked)) {
    return FieldError(kReason, absl::StrCat(field, ".revoke_time"),
                      "is required for a revoked key, and for no other");
  }
  return key;
}

absl::StatusOr<KeyStoreState> Parse(absl::string_view json) {
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue document,
                           ParseStrictJson(json, "keys.json", kMaxStateBytes, kReason));
  PARPLAN_RETURN_IF_ERROR(
      CheckMembers(document, "keys.json", {"bundle_sequence", "keys"}, kReason));
  KeyStoreState state;
  if (const JsonValue* const sequence = document.Find("bundle_sequence")) {
    if (sequence->type != JsonValue::Type::kInteger || sequence->integer < 0 ||
        sequence->integer > BundleVersion::kMaxSequence) {
      return FieldError(kReason, "bundle_sequence", "must be a whole number of at least 0");
    }
    state.bundle_sequence = sequence->integer;
  }
  const JsonValue* const entries = document.Find("keys");
  if (entries == nullptr || entries->type != JsonValue::Type::kArray || entries->items.empty() ||
      entries->items.size() > TrustBundle::kMaxKeyCount) {
    return FieldError(
        kReason, "keys",
        absl::StrCat("must be an array of 1 to ", TrustBundle::kMaxKeyCount, " keys"));
  }
  std::vector<KeyInfo>& keys = state.keys;
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
  return state;
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
    case KeyStatus::kRevoked:
      return "revoked";
  }
  return "unknown";
}

std::string KeyStoreStateToJson(const KeyStoreState& state) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const KeyInfo& key : state.keys) {
    nlohmann::ordered_json entry;
    entry["key_id"] = key.key_id;
    entry["create_time"] = FormatRfc3339(key.create_time);
    entry["not_before"] = FormatRfc3339(key.not_before);
    entry["not_after"] = FormatRfc3339(key.not_after);
    entry["status"] = std::string(KeyStatusName(key.status));
    if (key.revoke_time.has_value()) entry["revoke_time"] = FormatRfc3339(*key.revoke_time);
    entries.push_back(std::move(entry));
  }
  nlohmann::ordered_json document;
  document["bundle_sequence"] = state.bundle_sequence;
  document["keys"] = std::move(entries);
  return document.dump(2) + "\n";
}

absl::StatusOr<KeyStoreState> KeyStoreStateFromJson(absl::string_view json) {
  absl::StatusOr<KeyStoreState> state = Parse(json);
  if (state.ok()) return state;
  return MakeError(absl::StatusCode::kFailedPrecondition, kReason,
                   absl::StrCat("keys.json is damaged (", state.status().message(),
                                "); restore the folder of keys from a backup"));
}

}  // namespace parplan
