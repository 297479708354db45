#include "proto/envelope/envelope_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/envelope/base64.h"
#include "proto/envelope/strict_json.h"

namespace parplan {
namespace {

constexpr Reason kEnvelopeReason = Reason::kPayloadMalformed;

absl::StatusOr<std::string> GetBytes(const JsonValue& value, absl::string_view field,
                                     absl::string_view member) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text,
                           GetString(value, field, member, kEnvelopeReason));
  std::optional<std::string> bytes = DecodeBase64(text);
  if (!bytes) {
    return FieldError(kEnvelopeReason, absl::StrCat(field, ".", member),
                      "must be base64, without spaces or line breaks");
  }
  return *std::move(bytes);
}

}  // namespace

std::string EnvelopeToJson(const v1::SignedPlan& signed_plan) {
  nlohmann::ordered_json document;
  document["payload"] = EncodeBase64(signed_plan.payload());
  document["payloadType"] = signed_plan.payload_type();
  document["signatures"] = nlohmann::ordered_json::array();
  for (const v1::Signature& signature : signed_plan.signatures()) {
    nlohmann::ordered_json entry;
    if (!signature.key_id().empty()) entry["keyid"] = signature.key_id();
    entry["sig"] = EncodeBase64(signature.sig());
    document["signatures"].push_back(std::move(entry));
  }
  // Replaces bytes of a type or key id that are not UTF-8; no verifier accepts either form.
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

absl::StatusOr<v1::SignedPlan> EnvelopeFromJson(absl::string_view json) {
  PARPLAN_ASSIGN_OR_RETURN(
      const JsonValue document,
      ParseStrictJson(json, "envelope", kMaxEnvelopeJsonBytes, kEnvelopeReason));
  const bool is_object = document.type == JsonValue::Type::kObject;
  if (is_object && document.Find("payload") == nullptr && document.Find("signatures") == nullptr) {
    return FieldError(
        kEnvelopeReason, "envelope",
        "has neither `payload` nor `signatures`: it is no signed plan; a server signs "
        "those that it makes");
  }
  PARPLAN_RETURN_IF_ERROR(CheckMembers(document, "envelope",
                                       {"payload", "payloadType", "signatures"}, kEnvelopeReason));
  v1::SignedPlan signed_plan;
  PARPLAN_ASSIGN_OR_RETURN(*signed_plan.mutable_payload(),
                           GetBytes(document, "envelope", "payload"));
  PARPLAN_ASSIGN_OR_RETURN(*signed_plan.mutable_payload_type(),
                           GetString(document, "envelope", "payloadType", kEnvelopeReason));
  const JsonValue* const signatures = document.Find("signatures");
  if (signatures == nullptr || signatures->type != JsonValue::Type::kArray ||
      signatures->items.empty()) {
    return FieldError(kEnvelopeReason, "envelope.signatures",
                      "must be an array of at least one signature");
  }
  // Protobuf loses a new element if there is no memory for the array that is to hold it.
  signed_plan.mutable_signatures()->Reserve(static_cast<int>(signatures->items.size()));
  for (const JsonValue& entry : signatures->items) {
    const std::string field = absl::StrCat("signatures[", signed_plan.signatures_size(), "]");
    PARPLAN_RETURN_IF_ERROR(CheckMembers(entry, field, {"keyid", "sig"}, kEnvelopeReason));
    v1::Signature* const signature = signed_plan.add_signatures();
    PARPLAN_ASSIGN_OR_RETURN(*signature->mutable_sig(), GetBytes(entry, field, "sig"));
    if (entry.Find("keyid") != nullptr) {
      PARPLAN_ASSIGN_OR_RETURN(*signature->mutable_key_id(),
                               GetString(entry, field, "keyid", kEnvelopeReason));
    }
  }
  return signed_plan;
}

}  // namespace parplan
