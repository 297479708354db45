// Errors with a machine-readable reason. An `absl::Status` made here carries a
// `Reason` and a few named facts as a payload; server/rpc turns them into the
// `ErrorInfo` of the wire, planctl into its exit code and JSON.

#ifndef PARPLAN_BASE_ERROR_H_
#define PARPLAN_BASE_ERROR_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace parplan {

// Why something was refused. Same values and names as `ErrorReason` of
// proto/parplan/v1/error_info.proto, which documents each and its metadata keys.
enum class Reason {
  kSpecInvalid = 1,
  kProfileInvalid = 2,
  kProfileMissing = 3,
  kTopologyMismatch = 4,
  kNoFeasiblePlan = 5,
  kPlanExpired = 6,
  kSignatureInvalid = 7,
  kPayloadMalformed = 8,
  kAudienceMismatch = 9,
  kQueueFull = 10,
  kUploadTooLarge = 11,
  kSearchTimedOut = 12,
  kCheckFailed = 13,
  kResourceNotFound = 14,
  kExecutionState = 15,
  kStoreUnavailable = 16,
  kRequestIdReused = 17,
  kDraining = 18,
  kAgentConnected = 19,
};

// The name on the wire, for example `PROFILE_MISSING`.
absl::string_view ReasonName(Reason reason);

// What an error carries besides code and message.
struct ErrorDetail {
  Reason reason;
  // Keys in lowerCamelCase; order is that of the keys.
  std::map<std::string, std::string> metadata;
};

// A status with a reason. `message` is one sentence that says what to do.
absl::Status MakeError(absl::StatusCode code, Reason reason, absl::string_view message,
                       const std::map<std::string, std::string>& metadata = {});

// INVALID_ARGUMENT for a field that breaks a rule: "`field`: rule". `reason` is
// `kSpecInvalid` or `kProfileInvalid`.
absl::Status FieldError(Reason reason, absl::string_view field, absl::string_view rule);

// The detail of a status made by `MakeError`; absent for any other status.
std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status);

}  // namespace parplan

#endif  // PARPLAN_BASE_ERROR_H_
