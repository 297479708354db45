#include "proto/envelope/trust_bundle.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/envelope/base64.h"
#include "proto/envelope/key_id.h"
#include "proto/envelope/pre_authentication_encoding.h"
#include "proto/envelope/rfc3339.h"
#include "proto/envelope/strict_json.h"

namespace parplan {
namespace {

constexpr size_t kMaxBundleBytes = size_t{1} << 20;
constexpr Reason kBundleReason = Reason::kSpecInvalid;

// Type of the text that the signatures of a bundle cover.
constexpr char kSignedBundleType[] = "application/vnd.parplan.trust-bundle.v1+text";

absl::string_view StatusText(TrustStatus status) {
  switch (status) {
    case TrustStatus::kActive:
      return "active";
    case TrustStatus::kRetired:
      return "retired";
    case TrustStatus::kRevoked:
      return "revoked";
  }
  return "";
}

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
  for (const TrustStatus status :
       {TrustStatus::kActive, TrustStatus::kRetired, TrustStatus::kRevoked}) {
    if (text == StatusText(status)) return status;
  }
  return FieldError(kBundleReason, absl::StrCat(field, ".parplan_status"),
                    "must be `active`, `retired` or `revoked`");
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
                    "parplan_not_after", "parplan_status", "parplan_revoke_time"},
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
  TrustedKey trusted{std::move(public_key), not_before, not_after, status};
  if (key.Find("parplan_revoke_time") != nullptr) {
    PARPLAN_ASSIGN_OR_RETURN(trusted.revoke_time, GetTime(key, field, "parplan_revoke_time"));
  }
  return trusted;
}

absl::StatusOr<BundleVersion> VersionFromJson(const JsonValue& document) {
  const JsonValue* const sequence = document.Find("parplan_sequence");
  BundleVersion version;
  if (sequence == nullptr || sequence->type != JsonValue::Type::kInteger) {
    return FieldError(kBundleReason, "trust bundle.parplan_sequence",
                      "is required, as a whole number");
  }
  version.sequence = sequence->integer;
  PARPLAN_ASSIGN_OR_RETURN(version.issue_time,
                           GetTime(document, "trust bundle", "parplan_issue_time"));
  PARPLAN_ASSIGN_OR_RETURN(version.expire_time,
                           GetTime(document, "trust bundle", "parplan_expire_time"));
  return version;
}

absl::StatusOr<std::vector<BundleSignature>> SignaturesFromJson(const JsonValue& document) {
  const JsonValue* const entries = document.Find("parplan_signatures");
  if (entries == nullptr || entries->type != JsonValue::Type::kArray || entries->items.empty() ||
      entries->items.size() > TrustBundle::kMaxSignatureCount) {
    return FieldError(
        kBundleReason, "trust bundle.parplan_signatures",
        absl::StrCat("must be an array of 1 to ", TrustBundle::kMaxSignatureCount, " signatures"));
  }
  std::vector<BundleSignature> signatures;
  for (const JsonValue& entry : entries->items) {
    const std::string field = absl::StrCat("parplan_signatures[", signatures.size(), "]");
    PARPLAN_RETURN_IF_ERROR(CheckMembers(entry, field, {"keyid", "sig"}, kBundleReason));
    BundleSignature signature;
    PARPLAN_ASSIGN_OR_RETURN(signature.key_id, GetString(entry, field, "keyid", kBundleReason));
    PARPLAN_ASSIGN_OR_RETURN(const std::string sig, GetString(entry, field, "sig", kBundleReason));
    const std::optional<std::string> bytes = DecodeBase64(sig);
    if (!bytes.has_value()) {
      return FieldError(kBundleReason, absl::StrCat(field, ".sig"), "must be base64");
    }
    signature.sig = *bytes;
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

bool HasVersion(const JsonValue& document) {
  for (const absl::string_view member :
       {"parplan_sequence", "parplan_issue_time", "parplan_expire_time", "parplan_signatures"}) {
    if (document.Find(member) != nullptr) return true;
  }
  return false;
}

// A bundle that is out of date trusts no key, so the reason is that of a plan without a trusted
// signature.
absl::Status Stale(const TrustBundle& bundle, absl::string_view message,
                   std::map<std::string, std::string> metadata) {
  metadata["sequence"] =
      bundle.version().has_value() ? absl::StrCat(bundle.version()->sequence) : "";
  return MakeError(absl::StatusCode::kPermissionDenied, Reason::kSignatureInvalid, message,
                   metadata);
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
    if (keys[i].is_revoked() != keys[i].revoke_time.has_value() ||
        (keys[i].revoke_time.has_value() && !IsRfc3339Time(*keys[i].revoke_time))) {
      return FieldError(kBundleReason, absl::StrCat(field, ".parplan_revoke_time"),
                        "is required for a revoked key, and for no other");
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

absl::StatusOr<TrustBundle> TrustBundle::Create(std::vector<TrustedKey> keys,
                                                const BundleVersion& version) {
  if (version.sequence < 1 || version.sequence > BundleVersion::kMaxSequence) {
    return FieldError(kBundleReason, "trust bundle.parplan_sequence",
                      absl::StrCat("must be between 1 and ", BundleVersion::kMaxSequence));
  }
  if (!IsRfc3339Time(version.issue_time) || !IsRfc3339Time(version.expire_time) ||
      version.issue_time >= version.expire_time) {
    return FieldError(kBundleReason, "trust bundle.parplan_expire_time",
                      "must come after `parplan_issue_time`, both within the years 1 to 9999");
  }
  PARPLAN_ASSIGN_OR_RETURN(TrustBundle bundle, Create(std::move(keys)));
  bundle.version_ = version;
  return bundle;
}

absl::StatusOr<TrustBundle> TrustBundle::FromJson(absl::string_view json) {
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue document,
                           ParseStrictJson(json, "trust bundle", kMaxBundleBytes, kBundleReason));
  PARPLAN_RETURN_IF_ERROR(CheckMembers(document, "trust bundle",
                                       {"keys", "parplan_sequence", "parplan_issue_time",
                                        "parplan_expire_time", "parplan_signatures"},
                                       kBundleReason));
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
  if (!HasVersion(document)) return Create(std::move(keys));
  PARPLAN_ASSIGN_OR_RETURN(const BundleVersion version, VersionFromJson(document));
  PARPLAN_ASSIGN_OR_RETURN(TrustBundle bundle, Create(std::move(keys), version));
  PARPLAN_ASSIGN_OR_RETURN(bundle.signatures_, SignaturesFromJson(document));
  if (!bundle.IsSignedByKeyOf(bundle)) {
    return FieldError(kBundleReason, "trust bundle.parplan_signatures",
                      "none is by a key of the bundle that is not revoked, so the file was changed "
                      "by hand; get it again from the owner of the cluster, who takes a key back "
                      "with `parplan-server keys revoke`");
  }
  return bundle;
}

std::string TrustBundle::SignedBytes() const {
  PARPLAN_CHECK(version_.has_value());
  std::string text = absl::StrCat("parplan trust bundle 1\nsequence ", version_->sequence,
                                  "\nissue_time ", FormatRfc3339(version_->issue_time),
                                  "\nexpire_time ", FormatRfc3339(version_->expire_time), "\n");
  // The id of a key is a digest of it.
  for (const TrustedKey& key : keys_) {
    absl::StrAppend(&text, "key ", key.public_key.key_id(), " ", FormatRfc3339(key.not_before), " ",
                    FormatRfc3339(key.not_after), " ", StatusText(key.status));
    if (key.revoke_time.has_value()) absl::StrAppend(&text, " ", FormatRfc3339(*key.revoke_time));
    absl::StrAppend(&text, "\n");
  }
  return PreAuthenticationEncoding(kSignedBundleType, text);
}

TrustBundle TrustBundle::WithSignatures(std::vector<BundleSignature> signatures) const {
  PARPLAN_CHECK(version_.has_value() && !signatures.empty() &&
                signatures.size() <= kMaxSignatureCount);
  TrustBundle bundle = *this;
  bundle.signatures_ = std::move(signatures);
  return bundle;
}

bool TrustBundle::IsSignedByKeyOf(const TrustBundle& trust) const {
  const std::string message = SignedBytes();
  for (const BundleSignature& signature : signatures_) {
    for (const TrustedKey& key : trust.keys_) {
      if (!key.is_revoked() && key.public_key.Verify(message, signature.sig)) return true;
    }
  }
  return false;
}

absl::Status TrustBundle::CheckLife(absl::Time now) const {
  if (!version_.has_value() || now < version_->expire_time) return absl::OkStatus();
  const std::string expire_time = FormatRfc3339(version_->expire_time);
  return Stale(*this,
               absl::StrCat("the trust bundle expired at ", expire_time,
                            "; get the present one from the owner of the cluster"),
               {{"expireTime", expire_time}});
}

absl::Status TrustBundle::CheckSuccessor(const TrustBundle& next) const {
  if (!version_.has_value()) return absl::OkStatus();
  const std::string accepted = absl::StrCat(version_->sequence);
  if (!next.version_.has_value()) {
    return Stale(next,
                 absl::StrCat("the trust bundle has no version, and number ", accepted,
                              " was accepted here before; get the present one from the owner of "
                              "the cluster"),
                 {{"acceptedSequence", accepted}});
  }
  if (next.version_->sequence < version_->sequence) {
    return Stale(next,
                 absl::StrCat("the trust bundle has number ", next.version_->sequence,
                              ", and number ", accepted,
                              " was accepted here before; get the present one from the owner of "
                              "the cluster"),
                 {{"acceptedSequence", accepted}});
  }
  if (next.version_->sequence == version_->sequence) {
    if (next.version_ == version_ && next.keys_ == keys_) return absl::OkStatus();
    return Stale(next,
                 absl::StrCat("another trust bundle with number ", accepted,
                              " was accepted here before; get the present one from the owner of "
                              "the cluster"),
                 {{"acceptedSequence", accepted}});
  }
  if (next.IsSignedByKeyOf(*this)) return absl::OkStatus();
  std::vector<std::string> key_ids;
  for (const BundleSignature& signature : next.signatures_) {
    key_ids.push_back(HasKeyIdForm(signature.key_id) ? signature.key_id : "?");
  }
  return MakeError(absl::StatusCode::kPermissionDenied, Reason::kSignatureInvalid,
                   absl::StrCat("no key of the trust bundle accepted here before (number ",
                                accepted, ") signed this one (number ", next.version_->sequence,
                                "); ask the owner of the cluster whether it is theirs, and only "
                                "then remove the file that remembers the accepted one"),
                   {{"keyIds", absl::StrJoin(key_ids, ",")}});
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
    entry["parplan_status"] = std::string(StatusText(key.status));
    if (key.revoke_time.has_value()) entry["parplan_revoke_time"] = FormatRfc3339(*key.revoke_time);
    entries.push_back(std::move(entry));
  }
  nlohmann::ordered_json document;
  document["keys"] = std::move(entries);
  if (version_.has_value()) {
    document["parplan_sequence"] = version_->sequence;
    document["parplan_issue_time"] = FormatRfc3339(version_->issue_time);
    document["parplan_expire_time"] = FormatRfc3339(version_->expire_time);
    nlohmann::ordered_json signatures = nlohmann::ordered_json::array();
    for (const BundleSignature& signature : signatures_) {
      nlohmann::ordered_json entry;
      entry["keyid"] = signature.key_id;
      entry["sig"] = EncodeBase64(signature.sig);
      signatures.push_back(std::move(entry));
    }
    document["parplan_signatures"] = std::move(signatures);
  }
  return document.dump(2) + "\n";
}

google::protobuf::RepeatedPtrField<v1::VerificationKey> TrustBundle::ToProto() const {
  google::protobuf::RepeatedPtrField<v1::VerificationKey> messages;
  for (const TrustedKey& key : keys_) {
    if (key.is_revoked()) continue;
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
