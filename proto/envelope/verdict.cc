#include "proto/envelope/verdict.h"

#include <optional>

#include "base/error.h"

namespace parplan {

v1::VerifyPlanResponse::Verdict VerdictOf(const absl::Status& status) {
  if (status.ok()) return v1::VerifyPlanResponse::VALID;
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail) return v1::VerifyPlanResponse::VERDICT_UNSPECIFIED;
  switch (detail->reason) {
    case Reason::kSignatureInvalid:
      return v1::VerifyPlanResponse::BAD_SIGNATURE;
    case Reason::kPayloadMalformed:
      return v1::VerifyPlanResponse::MALFORMED;
    case Reason::kPlanExpired:
      return v1::VerifyPlanResponse::EXPIRED;
    case Reason::kAudienceMismatch:
      return v1::VerifyPlanResponse::WRONG_AUDIENCE;
    case Reason::kTopologyMismatch:
      return v1::VerifyPlanResponse::WRONG_TOPOLOGY;
    default:
      return v1::VerifyPlanResponse::VERDICT_UNSPECIFIED;
  }
}

std::string SigningKeyIdOf(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail) return "";
  const auto found = detail->metadata.find("keyId");
  return found == detail->metadata.end() ? "" : found->second;
}

}  // namespace parplan
