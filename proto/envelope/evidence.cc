#include "proto/envelope/evidence.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/envelope/key_id.h"
#include "proto/envelope/rfc3339.h"
#include "proto/envelope/signers.h"
#include "proto/envelope/strict_json.h"
#include "proto/envelope/verifier.h"

namespace parplan {
namespace {

constexpr Reason kMalformed = Reason::kPayloadMalformed;
constexpr char kStatementType[] = "https://in-toto.io/Statement/v1";
// Statements have a few KiB; one with a line for each collective of a large job has a few MiB.
constexpr size_t kMaxStatementBytes = size_t{16} << 20;
constexpr size_t kMaxSummaryBytes = 1024;

// A statement, read and not compared with anything.
struct Statement {
  std::string subject_name;
  std::string subject_digest;
  absl::Time finish_time;
  std::string summary;
};

absl::StatusOr<const JsonValue*> GetMember(const JsonValue& value, absl::string_view field,
                                           absl::string_view member, JsonValue::Type type) {
  const JsonValue* const found = value.Find(member);
  if (found != nullptr && found->type == type) return found;
  return FieldError(kMalformed, absl::StrCat(field, ".", member),
                    "is required in evidence; write it with this release's parplan-torch");
}

absl::Status RequireText(const JsonValue& value, absl::string_view member,
                         absl::string_view expected) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text,
                           GetString(value, "evidence", member, kMalformed));
  if (text == expected) return absl::OkStatus();
  return FieldError(kMalformed, absl::StrCat("evidence.", member),
                    absl::StrCat("must be `", expected, "`"));
}

absl::StatusOr<Statement> ReadStatement(absl::string_view bytes) {
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue document,
                           ParseStrictJson(bytes, "evidence", kMaxStatementBytes, kMalformed));
  PARPLAN_RETURN_IF_ERROR(RequireText(document, "_type", kStatementType));
  PARPLAN_RETURN_IF_ERROR(RequireText(document, "predicateType", kTorchCheckPredicate));
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue* const subjects,
                           GetMember(document, "evidence", "subject", JsonValue::Type::kArray));
  if (subjects->items.size() != 1) {
    return FieldError(kMalformed, "evidence.subject", "must have exactly one entry, the plan");
  }
  const JsonValue& subject = subjects->items.front();
  Statement statement;
  PARPLAN_ASSIGN_OR_RETURN(statement.subject_name,
                           GetString(subject, "subject[0]", "name", kMalformed));
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue* const digest,
                           GetMember(subject, "subject[0]", "digest", JsonValue::Type::kObject));
  PARPLAN_ASSIGN_OR_RETURN(statement.subject_digest,
                           GetString(*digest, "subject[0].digest", "sha256", kMalformed));
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue* const predicate,
                           GetMember(document, "evidence", "predicate", JsonValue::Type::kObject));
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue* const passed,
                           GetMember(*predicate, "predicate", "passed", JsonValue::Type::kBoolean));
  if (!passed->boolean) {
    return FieldError(kMalformed, "predicate.passed",
                      "is false: the check of this plan failed; do not run the plan");
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::string finish_time,
                           GetString(*predicate, "predicate", "finish_time", kMalformed));
  const std::optional<absl::Time> time = ParseRfc3339(finish_time);
  if (!time.has_value()) {
    return FieldError(kMalformed, "predicate.finish_time",
                      "must be a time such as 2026-11-21T12:00:00Z");
  }
  statement.finish_time = *time;
  PARPLAN_ASSIGN_OR_RETURN(statement.summary,
                           GetString(*predicate, "predicate", "summary", kMalformed));
  const bool has_control =
      std::any_of(statement.summary.begin(), statement.summary.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (has_control || statement.summary.size() > kMaxSummaryBytes) {
    return FieldError(kMalformed, "predicate.summary",
                      absl::StrCat("must be one line of at most ", kMaxSummaryBytes, " bytes"));
  }
  return statement;
}

absl::Status WrongTime(absl::string_view key_id, absl::string_view message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kPlanExpired, message,
                   {{"keyId", std::string(key_id)}});
}

}  // namespace

absl::StatusOr<Evidence> VerifyEvidence(const v1::SignedPlan& envelope, const TrustBundle& trust,
                                        const VerifiedPlan& plan, absl::Time now) {
  const std::vector<const TrustedKey*> signers = FindSigners(trust, envelope);
  if (signers.empty()) {
    return MakeError(absl::StatusCode::kPermissionDenied, Reason::kSignatureInvalid,
                     "no trusted key signed the evidence: it was altered, or the key of who "
                     "checked is not trusted; name its public part with --evidence-key",
                     {});
  }
  const std::string& first_key_id = signers.front()->public_key.key_id();
  if (envelope.payload_type() != kStatementPayloadType) {
    return FieldError(kMalformed, "evidence.payloadType",
                      absl::StrCat("must be `", kStatementPayloadType, "`"));
  }
  PARPLAN_ASSIGN_OR_RETURN(Statement statement, ReadStatement(envelope.payload()));
  const std::string digest = HexDigest(plan.bytes());
  if (statement.subject_digest != digest || statement.subject_name != plan.payload().plan()) {
    return MakeError(absl::StatusCode::kPermissionDenied, Reason::kAudienceMismatch,
                     "the evidence is about another plan; check this one with "
                     "`parplan-torch check`",
                     {{"expected", digest}, {"keyId", first_key_id}});
  }
  if (statement.finish_time > now + PlanVerifier::kIssueTimeTolerance) {
    return WrongTime(first_key_id,
                     absl::StrCat("the evidence is of ", FormatRfc3339(statement.finish_time),
                                  ", which is in the future; correct the clocks"));
  }
  const auto allowed = std::find_if(signers.begin(), signers.end(), [&](const TrustedKey* key) {
    return key->MayIssueAt(statement.finish_time);
  });
  if (allowed == signers.end()) {
    return WrongTime(first_key_id,
                     absl::StrCat("the evidence is of ", FormatRfc3339(statement.finish_time),
                                  ", outside the window of the key ", first_key_id,
                                  " that signed it; check the plan again"));
  }
  Evidence evidence;
  evidence.key_id = (*allowed)->public_key.key_id();
  evidence.finish_time = statement.finish_time;
  evidence.summary = std::move(statement.summary);
  evidence.statement = envelope.payload();
  return evidence;
}

}  // namespace parplan
