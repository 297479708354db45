#include "base/error.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace parplan {
namespace {

// The payload is "<reason number>\0key\0value\0key\0value...". It never leaves
// the process.
constexpr char kPayloadUrl[] = "parplan/error-detail";

// The payload is a decimal number of nanoseconds.
constexpr char kRetryUrl[] = "parplan/retry-delay";

}  // namespace

absl::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kSpecInvalid:
      return "SPEC_INVALID";
    case Reason::kProfileInvalid:
      return "PROFILE_INVALID";
    case Reason::kProfileMissing:
      return "PROFILE_MISSING";
    case Reason::kTopologyMismatch:
      return "TOPOLOGY_MISMATCH";
    case Reason::kNoFeasiblePlan:
      return "NO_FEASIBLE_PLAN";
    case Reason::kPlanExpired:
      return "PLAN_EXPIRED";
    case Reason::kSignatureInvalid:
      return "SIGNATURE_INVALID";
    case Reason::kPayloadMalformed:
      return "PAYLOAD_MALFORMED";
    case Reason::kAudienceMismatch:
      return "AUDIENCE_MISMATCH";
    case Reason::kQueueFull:
      return "QUEUE_FULL";
    case Reason::kUploadTooLarge:
      return "UPLOAD_TOO_LARGE";
    case Reason::kSearchTimedOut:
      return "SEARCH_TIMED_OUT";
    case Reason::kCheckFailed:
      return "CHECK_FAILED";
    case Reason::kResourceNotFound:
      return "RESOURCE_NOT_FOUND";
    case Reason::kExecutionState:
      return "EXECUTION_STATE";
    case Reason::kStoreUnavailable:
      return "STORE_UNAVAILABLE";
    case Reason::kRequestIdReused:
      return "REQUEST_ID_REUSED";
    case Reason::kDraining:
      return "DRAINING";
    case Reason::kAgentConnected:
      return "AGENT_CONNECTED";
    case Reason::kRoleRequired:
      return "ROLE_REQUIRED";
    case Reason::kAuditUnavailable:
      return "AUDIT_UNAVAILABLE";
    case Reason::kQuotaExceeded:
      return "QUOTA_EXCEEDED";
    case Reason::kSearchOutOfMemory:
      return "SEARCH_OUT_OF_MEMORY";
  }
  return "UNKNOWN";
}

absl::Status MakeError(absl::StatusCode code, Reason reason, absl::string_view message,
                       const std::map<std::string, std::string>& metadata) {
  absl::Status status(code, message);
  std::string payload = absl::StrCat(static_cast<int>(reason));
  for (const auto& [key, value] : metadata) {
    payload.push_back('\0');
    payload.append(key);
    payload.push_back('\0');
    payload.append(value);
  }
  status.SetPayload(kPayloadUrl, absl::Cord(std::move(payload)));
  return status;
}

absl::Status FieldError(Reason reason, absl::string_view field, absl::string_view rule) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, absl::StrCat(field, ": ", rule),
                   {{"field", std::string(field)}, {"rule", std::string(rule)}});
}

std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  const std::vector<std::string> parts = absl::StrSplit(text, '\0');
  int reason = 0;
  if (!absl::SimpleAtoi(parts[0], &reason)) return std::nullopt;
  ErrorDetail detail{static_cast<Reason>(reason), {}};
  for (size_t i = 1; i + 1 < parts.size(); i += 2) detail.metadata[parts[i]] = parts[i + 1];
  return detail;
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  if (!status.ok()) {
    status.SetPayload(kRetryUrl, absl::Cord(absl::StrCat(absl::ToInt64Nanoseconds(delay))));
  }
  return status;
}

std::optional<absl::Duration> GetRetryDelay(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryUrl);
  int64_t nanoseconds = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &nanoseconds)) {
    return std::nullopt;
  }
  return absl::Nanoseconds(nanoseconds);
}

}  // namespace parplan
