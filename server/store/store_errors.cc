#include "server/store/store_errors.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"

namespace parplan {
namespace {

absl::string_view StateName(ExecutionState state) {
  switch (state) {
    case ExecutionState::kRunning:
      return "RUNNING";
    case ExecutionState::kSucceeded:
      return "SUCCEEDED";
    case ExecutionState::kFailed:
      return "FAILED";
    case ExecutionState::kAbandoned:
      return "ABANDONED";
  }
  return "UNKNOWN";
}

// Long enough for a person to make room, and short against the patience of agents. Not measured.
constexpr absl::Duration kDiskFullRetry = absl::Seconds(30);

constexpr char kCause[] = "cause";
constexpr char kDiskFull[] = "disk_full";

}  // namespace

absl::Status DiskFullError(absl::string_view detail) {
  return WithRetryDelay(MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                                  absl::StrCat("store: ", detail), {{kCause, kDiskFull}}),
                        kDiskFullRetry);
}

bool IsDiskFullError(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value() || detail->reason != Reason::kStoreUnavailable) return false;
  const auto found = detail->metadata.find(kCause);
  return found != detail->metadata.end() && found->second == kDiskFull;
}

absl::Status NotStoredError(absl::string_view kind, absl::string_view name) {
  return MakeError(absl::StatusCode::kNotFound, Reason::kResourceNotFound,
                   absl::StrCat("`name`: there is no ", kind, " `", name,
                                "`; list what there is, it may have been deleted"),
                   {{"name", std::string(name)}});
}

absl::Status NameTakenError(absl::string_view name) {
  return MakeError(absl::StatusCode::kAlreadyExists, Reason::kSpecInvalid,
                   absl::StrCat("`name`: `", name, "` is stored already; choose another name"),
                   {{"field", "name"}, {"rule", "must be new"}});
}

absl::Status JobClaimedError(absl::string_view job_id, int64_t generation) {
  return MakeError(absl::StatusCode::kAborted, Reason::kStoreUnavailable,
                   absl::StrCat("store: job `", job_id, "` has had a plan with the number ",
                                generation, " or a higher one; number this one anew"));
}

absl::Status RequestIdReusedError(absl::string_view request_id, absl::string_view stored_name) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, Reason::kRequestIdReused,
      absl::StrCat("`request_id`: `", request_id, "` was used with other content for `",
                   stored_name, "`; make a new random id for every new request"),
      {{"requestId", std::string(request_id)}});
}

absl::Status ExecutionStateError(absl::string_view name, ExecutionState state) {
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kExecutionState,
                   absl::StrCat("`name`: execution `", name, "` is ", StateName(state),
                                ", which this call does not allow; open a new execution"),
                   {{"state", std::string(StateName(state))}});
}

absl::Status TooManyWindowsError(absl::string_view execution, int64_t limit, int64_t value) {
  return MakeError(
      absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
      absl::StrCat("`window`: execution `", execution, "` would hold ", value,
                   " windows, the limit is ", limit, "; report longer windows"),
      {{"field", "window"}, {"limit", absl::StrCat(limit)}, {"value", absl::StrCat(value)}});
}

absl::Status TooManyWindowBytesError(absl::string_view execution, int64_t limit, int64_t value) {
  return MakeError(
      absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
      absl::StrCat("`window`: execution `", execution, "` would take up ", value,
                   " bytes, the limit is ", limit,
                   "; report longer windows, or fewer collective timings"),
      {{"field", "window"}, {"limit", absl::StrCat(limit)}, {"value", absl::StrCat(value)}});
}

absl::Status CheckExecutionLimits(absl::string_view execution, const ExecutionLimits& total,
                                  const ExecutionLimits& limits) {
  if (total.window_count > limits.window_count) {
    return TooManyWindowsError(execution, limits.window_count, total.window_count);
  }
  if (total.byte_count > limits.byte_count) {
    return TooManyWindowBytesError(execution, limits.byte_count, total.byte_count);
  }
  return absl::OkStatus();
}

}  // namespace parplan
