#include "base/service/shell/exit_code.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/unreachable.h"

namespace parplan::shell {

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return ExitCode::kOk;
  if (const std::optional<ErrorDetail> detail = GetErrorDetail(status); detail.has_value()) {
    switch (detail->reason) {
      case Reason::kSpecInvalid:
      case Reason::kProfileInvalid:
      case Reason::kUploadTooLarge:
      case Reason::kRequestIdReused:
      case Reason::kExecutionState:
      case Reason::kRoleRequired:
      case Reason::kSearchOutOfMemory:
        return ExitCode::kBadInput;
      case Reason::kNoFeasiblePlan:
        return ExitCode::kNothingFits;
      case Reason::kProfileMissing:
        return ExitCode::kMeasurementsMissing;
      case Reason::kTopologyMismatch:
      case Reason::kPlanExpired:
      case Reason::kSignatureInvalid:
      case Reason::kPayloadMalformed:
      case Reason::kAudienceMismatch:
        return ExitCode::kNotVerified;
      case Reason::kQueueFull:
      case Reason::kSearchTimedOut:
      case Reason::kStoreUnavailable:
      case Reason::kDraining:
      case Reason::kAgentConnected:
      case Reason::kAuditUnavailable:
      case Reason::kQuotaExceeded:
        return ExitCode::kUnavailable;
      case Reason::kResourceNotFound:
        return ExitCode::kNotFound;
      case Reason::kCheckFailed:
        return ExitCode::kInternal;
    }
  }
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kBadInput;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kCancelled:
      return ExitCode::kUnavailable;
    default:
      return ExitCode::kInternal;
  }
}

std::string ErrorText(absl::string_view program, const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value()) {
    return absl::StrCat(
        program, ": ", absl::StatusCodeToString(status.code()), ": ", status.message(),
        IsUnreachable(status) ? "; is parplan-server running there? --server names another" : "");
  }
  return absl::StrCat(program, ": ", ReasonName(detail->reason), ": ", status.message());
}

std::string ErrorJson(const absl::Status& status) {
  nlohmann::ordered_json error;
  error["code"] = absl::StatusCodeToString(status.code());
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  error["reason"] = detail.has_value() ? std::string(ReasonName(detail->reason)) : std::string();
  error["message"] = std::string(status.message());
  error["metadata"] = nlohmann::ordered_json::object();
  if (detail.has_value()) {
    for (const auto& [key, value] : detail->metadata) error["metadata"][key] = value;
  }
  return nlohmann::ordered_json{{"error", error}}.dump(
      2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace parplan::shell
