// The errors that every implementation of `Store` returns with the same text. Both stores make them
// here.

#ifndef PARPLAN_SERVER_STORE_STORE_ERRORS_H_
#define PARPLAN_SERVER_STORE_STORE_ERRORS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/store/records.h"

namespace parplan {

// Returns UNAVAILABLE (STORE_UNAVAILABLE) with the fact `cause`, by which `IsDiskFullError` knows
// it, and the time after which to try again, 30 s. `detail` says what happened and what to do.
absl::Status DiskFullError(absl::string_view detail);

// Returns whether `status` is that of a full disk. `MeteredStore` asks it too.
bool IsDiskFullError(const absl::Status& status);

// Returns NOT_FOUND (RESOURCE_NOT_FOUND). `kind` is `profile`, `calibration`, `plan` or
// `execution`.
absl::Status NotStoredError(absl::string_view kind, absl::string_view name);

// Returns ALREADY_EXISTS (SPEC_INVALID).
absl::Status NameTakenError(absl::string_view name);

// Returns ABORTED (STORE_UNAVAILABLE): the job has had `generation` or a higher number.
absl::Status JobClaimedError(absl::string_view job_id, int64_t generation);

// Returns INVALID_ARGUMENT (REQUEST_ID_REUSED): `stored_name` was stored with this id.
absl::Status RequestIdReusedError(absl::string_view request_id, absl::string_view stored_name);

// Returns FAILED_PRECONDITION (EXECUTION_STATE): the execution is in `state`, which the call does
// not allow.
absl::Status ExecutionStateError(absl::string_view name, ExecutionState state);

// Return RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE): the execution would have `value` windows or bytes,
// above `limit`.
absl::Status TooManyWindowsError(absl::string_view execution, int64_t limit, int64_t value);
absl::Status TooManyWindowBytesError(absl::string_view execution, int64_t limit, int64_t value);

// Returns the error of an execution that would have `total` windows and bytes, that of the windows
// first; OK if both are at most `limits`.
absl::Status CheckExecutionLimits(absl::string_view execution, const ExecutionLimits& total,
                                  const ExecutionLimits& limits);

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_STORE_ERRORS_H_
