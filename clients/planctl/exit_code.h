// What planctl tells the shell, and how it says what went wrong.

#ifndef PARPLAN_CLIENTS_PLANCTL_EXIT_CODE_H_
#define PARPLAN_CLIENTS_PLANCTL_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"

namespace parplan::planctl {

// Documented in docs/planctl.md; never renumbered.
enum class ExitCode {
  kOk = 0,
  // A mistake of ours, or of the machine.
  kInternal = 1,
  // Wrong arguments, or a file or field that breaks a rule.
  kBadInput = 2,
  // No plan fits. The memory that would is in the message.
  kNothingFits = 3,
  // The profile lacks measurements. All of them are in the message.
  kMeasurementsMissing = 4,
  // A signature, audience, topology or time check failed.
  kNotVerified = 5,
  // The server can't be reached, is busy, or did not answer in time.
  kUnavailable = 6,
  // The server or its store has no such thing.
  kNotFound = 7,
};

// The code for a status, by its reason where it has one.
ExitCode ExitCodeOf(const absl::Status& status);

// One line for people: what went wrong and what to do.
std::string ErrorText(const absl::Status& status);

// The same as one JSON object: {"error": {"code", "reason", "message",
// "metadata"}}.
std::string ErrorJson(const absl::Status& status);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_EXIT_CODE_H_
