// Errors with a machine-readable reason. An `absl::Status` made here carries a `Reason` and a few
// named facts as a payload. server/rpc turns them into the `ErrorInfo` of the wire, clients/cpp
// back, and programs of commands (base/service/shell/exit_code.h) into exit codes and JSON. All
// functions are pure.
//
//   if (size > limit) {
//     return FieldError(Reason::kSpecInvalid, "model.layer_runs", "must not exceed 16384 layers");
//   }

#ifndef PARPLAN_BASE_ERROR_H_
#define PARPLAN_BASE_ERROR_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace parplan {

// The reason of an error. Values and names are those of `ErrorReason` in
// proto/parplan/v1/error_info.proto, which documents each and its metadata keys.
enum class Reason {
  kSpecInvalid = 1,         // a field of a request or file breaks a rule
  kProfileInvalid = 2,      // a profile breaks a rule
  kProfileMissing = 3,      // measurements that the problem needs are missing
  kTopologyMismatch = 4,    // the nodes are not those of the topology that is named
  kNoFeasiblePlan = 5,      // no plan of the space fits in memory
  kPlanExpired = 6,         // the time of the plan is over
  kSignatureInvalid = 7,    // no trusted key made any of the signatures
  kPayloadMalformed = 8,    // what is signed is no plan of a known type
  kAudienceMismatch = 9,    // the plan is for another cluster, job or node
  kQueueFull = 10,          // too many searches or uploads are waiting
  kUploadTooLarge = 11,     // an upload or request exceeds a limit
  kSearchTimedOut = 12,     // the deadline passed before any plan was found
  kCheckFailed = 13,        // the answer of the planner failed its check: a defect
  kResourceNotFound = 14,   // no such profile, plan or execution
  kExecutionState = 15,     // the execution is not in the state that the call needs
  kStoreUnavailable = 16,   // the store cannot serve now
  kRequestIdReused = 17,    // a `request_id` came again with other content
  kDraining = 18,           // the server is shutting down
  kAgentConnected = 19,     // another agent is connected as this node
  kRoleRequired = 20,       // no role of the caller allows the call, or its token is refused
  kAuditUnavailable = 21,   // the audit log cannot be written, so nothing may change
  kQuotaExceeded = 22,      // a quota of the caller or of a cluster
  kSearchOutOfMemory = 23,  // a search used up its memory before any plan was found
};

// Returns the name on the wire, for example `PROFILE_MISSING`; `UNKNOWN` for a number that is no
// reason.
absl::string_view ReasonName(Reason reason);

// The payload of an error, in addition to code and message.
struct ErrorDetail {
  Reason reason;
  // Named facts. Keys are in lowerCamelCase; neither keys nor values hold a NUL byte, which is not
  // checked.
  std::map<std::string, std::string> metadata;
};

// Returns a status with a reason. `message` is one sentence that says what to do. REQUIRES: `code`
// is not kOk, since an OK status has no payload; that is not checked.
absl::Status MakeError(absl::StatusCode code, Reason reason, absl::string_view message,
                       const std::map<std::string, std::string>& metadata = {});

// Returns INVALID_ARGUMENT for a field that breaks a rule, with the message "FIELD: RULE" and the
// metadata `field` and `rule`. `reason` says whose field it is: `kSpecInvalid` (a request or a
// setting), `kProfileInvalid` (a profile) or `kPayloadMalformed` (a signed plan).
absl::Status FieldError(Reason reason, absl::string_view field, absl::string_view rule);

// Returns the payload of a status made by `MakeError` or `FieldError`, or nothing for any other
// status, OK included.
std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status);

// Returns `status` with the time after which the same call may succeed, to the nanosecond, which
// server/rpc sends as `RetryInfo`; an earlier one is replaced. An OK status stays as it is.
// REQUIRES: `delay` is finite and not negative, which is not checked.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// Returns the time given to `WithRetryDelay`, or nothing.
std::optional<absl::Duration> GetRetryDelay(const absl::Status& status);

}  // namespace parplan

#endif  // PARPLAN_BASE_ERROR_H_
