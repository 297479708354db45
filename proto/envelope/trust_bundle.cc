#include "proto/envelope/trust_bundle.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/envelope/base64.h"
#include "proto/envelope/rfc3339.h"
#include "proto/envelope/strict_json.h"

namespace parplan {
namespace {

constexpr size_t kMaxBundleBytes = size_t{1} << 20;
constexpr Reason kBundleReason = Reason::kSpecInvalid;

// Checks that a member, if present, has the only supported value.
absl::Status CheckConstant(const JsonValue& key, absl::string_view field, absl::string_view member,
                           absl::string_view only, bool required) {
  const JsonValue* const found = key.Find(member);
  if (found == nullptr && !required) return absl::OkStatus();
  if (found != nullptr && found->type == JsonValue::Type::kString && found->text == only) {
    return absl::OkStatus();
  }
  return FieldError(kBundleReason, absl::StrCat(field, ".", member),
                    absl::StrCat("must be `", only, "`; other kinds of keys sign no plans"));
}

absl::StatusOr<absl::Time> GetTime(const JsonValue& key, absl::string_view field,
                                   absl::string_view member) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, GetString(key, field, member, kBundleReason));
  const std::optional<absl::Time> time = ParseRfc3339(text);
  if (!time) {
    return FieldError(kBundleReason, absl::StrCat(field, ".", member),
                      "must be an RFC 3339 time such as `2026-01-31T12:00:00Z`");
  }
  return *time;
}

absl::StatusOr<TrustStatus> GetStatus(const JsonValue& key, absl::string_view field) {
  if (key.Find("parplan_status") == nullptr) return TrustStatus::kActive;
  PARPLAN_ASSIGN_OR_RETURN(const std::string text,
                           GetString(key, field, "parplan_status", kBundleReason));
  if (text == "active") return TrustStatus::kActive;
  if (text == "retired") return TrustStatus::kRetired;
  return FieldError(kBundleReason, absl::StrCat(field, ".parplan_status"),
                    "must be `active` or `retired`");
}

absl::StatusOr<TrustedKey> KeyFromJson(const JsonValue& key, absl::string_view field) {
  if (key.Find("d") != nullptr) {
    return FieldError(kBundleReason, absl::StrCat(field, ".d"),
                      "is a private key, which a trust bundle never holds; stop handing out this "
                      "file and replace the key");
  }
  PARPLAN_RETURN_IF_ERROR(
      CheckMembers(key, field,
                   {"kty", "crv", "use", "alg", "kid", "x", "parplan_not_before",
                    "parplan_not_after", "parplan_status"},
                   kBundleReason));
  PARPLAN_RETURN_IF_ERROR(CheckConstant(key, field, "kty", "OKP", true));
  PARPLAN_RETURN_IF_ERROR(CheckConstant(key, field, "crv", "Ed25519", true));
  PARPLAN_RETURN_IF_ERROR(CheckConstant(key, field, "use", "sig", false));
  PARPLAN_RETURN_IF_ERROR(CheckConstant(key, field, "alg", "EdDSA", false));

  PARPLAN_ASSIGN_OR_RETURN(const std::string x, GetString(key, field, "x", kBundleReason));
  const std::optional<std::string> raw = DecodeBase64(x);
  if (!raw || raw->size() != 32) {
    return FieldError(kBundleReason, absl::StrCat(field, ".x"), "must be 32 bytes in base64url");
  }
  PARPLAN_ASSIGN_OR_RETURN(PublicKey public_key, PublicKey::FromRaw32(*raw));
  PARPLAN_ASSIGN_OR_RETURN(const std::string key_id, GetString(key, field, "kid", kBundleReason));
  if (key_id != public_key.key_id()) {
    return FieldError(kBundleReason, absl::StrCat(field, ".kid"),
                      absl::StrCat("must be the key id of `x`, which is ", public_key.key_id()));
  }
  PARPLAN_ASSIGN_OR_RETURN(const absl::Time not_before, GetTime(key, field, "parplan_not_before"));
  PARPLAN_ASSIGN_OR_RETURN(const absl::Time not_after, GetTime(key, field, "parplan_not_after"));
  PARPLAN_ASSIGN_OR_RETURN(const TrustStatus status, GetStatus(key, field));
  return TrustedKey{std::move(public_key), not_before, not_after, status};
}

void SetTimestamp(absl::Time time, google::protobuf::Timestamp* timestamp) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  timestamp->set_seconds(seconds);
  timestamp->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

}  // namespace

absl::StatusOr<TrustBundle> TrustBundle::Create(std::vector<TrustedKey> keys) {
  if (keys.size() > kMaxKeyCount) {
    return FieldError(kBundleReason, "keys",
                      absl::StrCat("has ", keys.size(), " keys; at most ", kMaxKeyCount,
                                   " are read, so remove those whose plans have expired"));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string field = absl::StrCat("keys[", i, "]");
    if (!IsRfc3339Time(keys[i].not_before) || !IsRfc3339Time(keys[i].not_after) ||
        keys[i].not_before >= keys[i].not_after) {
      return FieldError(kBundleReason, absl::StrCat(field, ".parplan_not_after"),
                        "must come after `parplan_not_before`, both within the years 1 to 9999");
    }
    for (size_t j = 0; j < i; ++j) {
      if (keys[j].public_key == keys[i].public_key) {
        return FieldError(kBundleReason, absl::StrCat(field, ".kid"),
                          absl::StrCat("is that of keys[", j, "] too; keep one of them"));
      }
    }
  }
  std::sort(keys.begin(), keys.end(), [](const TrustedKey& a, const TrustedKey& b) {
    return std::tie(a.not_before, a.public_key.key_id()) <
           std::tie(b.not_before, b.public_key.key_id());
  });
  TrustBundle bundle;
  bundle.keys_ = std::move(keys);
  return bundle;
}

absl::StatusOr<TrustBundle> TrustBundle::FromJson(absl::string_view json) {
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue document,
                           ParseStrictJson(json, "trust bundle", kMaxBundleBytes, kBundleReason));
  PARPLAN_RETURN_IF_ERROR(CheckMembers(document, "trust bundle", {"keys"}, kBundleReason));
  const JsonValue* const entries = document.Find("keys");
  if (entries == nullptr || entries->type != JsonValue::Type::kArray || entries->items.empty()) {
    return FieldError(
        kBundleReason, "keys",
        "must be an array of at least one key; a verifier without keys trusts no plan");
  }
  std::vector<TrustedKey> keys;
  for (const JsonValue& entry : entries->items) {
    const std::string field = absl::StrCat("keys[", keys.size(), "]");
    PARPLAN_ASSIGN_OR_RETURN(TrustedKey key, KeyFromJson(entry, field));
    keys.push_back(std::move(key));
  }
  return Create(std::move(keys));
}

std::string TrustBundle::ToJson() const {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const TrustedKey& key : keys_) {
    nlohmann::ordered_json entry;
    entry["kty"] = "OKP";
    entry["crv"] = "Ed25519";
    entry["use"] = "sig";
    entry["alg"] = "EdDSA";
    entry["kid"] = key.public_key.key_id();
    entry["x"] = EncodeBase64Url(key.public_key.raw());
    entry["parplan_not_before"] = FormatRfc3339(key.not_before);
    entry["parplan_not_after"] = FormatRfc3339(key.not_after);
    entry["parplan_status"] = key.status == TrustStatus::kActive ? "active" : "retired";
    entries.push_back(std::move(entry));
  }
  nlohmann::ordered_json document;
  document["keys"] = std::move(entries);
  return document.dump(2) + "\n";
}

google::protobuf::RepeatedPtrField<v1::VerificationKey> TrustBundle::ToProto() const {
  google::protobuf::RepeatedPtrField<v1::VerificationKey> messages;
  for (const TrustedKey& key : keys_) {
    v1::VerificationKey* const message = messages.Add();
    message->set_key_id(key.public_key.key_id());
    message->set_public_key(key.public_key.raw());
    SetTimestamp(key.not_before, message->mutable_not_before());
    SetTimestamp(key.not_after, message->mutable_not_after());
  }
  return messages;
}

const TrustedKey* TrustBundle::Find(absl::string_view key_id) const {
  for (const TrustedKey& key : keys_) {
    if (absl::string_view(key.public_key.key_id()) == key_id) return &key;
  }
  return nullptr;
}

}  // namespace parplan
