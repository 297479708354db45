// Exit codes of the programs that have commands, and the form of their errors. `RunCommands` ends
// every program of commands by it.

#ifndef PARPLAN_BASE_SERVICE_SHELL_EXIT_CODE_H_
#define PARPLAN_BASE_SERVICE_SHELL_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace parplan::shell {

// Documented in docs/planctl.md; never renumbered.
enum class ExitCode {
  kOk = 0,
  // A defect of the program (CHECK_FAILED, INTERNAL), or an error that no other code names.
  kInternal = 1,
  // Wrong arguments, a file or field that breaks a rule or is out of range, or a request that is
  // refused however often it is made (UPLOAD_TOO_LARGE, REQUEST_ID_REUSED, EXECUTION_STATE,
  // ROLE_REQUIRED, SEARCH_OUT_OF_MEMORY).
  kBadInput = 2,
  // No plan fits, and the message has the memory that would suffice; or the planner has no plan of
  // its kind for these devices.
  kNothingFits = 3,
  // The profile lacks measurements. The message lists all of them.
  kMeasurementsMissing = 4,
  // A check of signature, payload, audience, topology or validity time failed.
  kNotVerified = 5,
  // The server, its store or its audit log can't be reached, is busy, or did not answer in time; a
  // search, of this program too, ended before its first plan; a quota is used up or an agent is
  // connected already; or the call was cancelled.
  kUnavailable = 6,
  // The server or its store has no such resource.
  kNotFound = 7,
};

// Returns the exit code of a status: that of its reason if it has one, else that of its code; kOk
// for OK.
ExitCode ExitCodeOf(const absl::Status& status);

// Returns a text for people without a line feed at its end, which begins with the name of the
// program: what went wrong and what to do. It has the name of the reason, or of the code without
// one, and for a server that cannot be reached the hint at `--server`. REQUIRES, here and for
// `ErrorJson`: an error; that is not checked.
std::string ErrorText(absl::string_view program, const absl::Status& status);

// Returns the error as one JSON object over several lines: {"error": {"code", "reason", "message",
// "metadata"}}. Without an `ErrorDetail` the reason is "" and the metadata is {}.
std::string ErrorJson(const absl::Status& status);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_EXIT_CODE_H_
