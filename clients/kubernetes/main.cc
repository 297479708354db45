// parplan-sidecar: stands between a pod and parplan-server. docs/kubernetes.md.

#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "base/error.h"
#include "base/service/log/event_log.h"
#include "clients/kubernetes/init_command.h"
#include "clients/kubernetes/run_command.h"
#include "clients/kubernetes/sidecar_flags.h"

namespace parplan::sidecar {
namespace {

// The exit codes of planctl that apply.
enum ExitStatus {
  kOk = 0,
  kFailed = 1,
  kBadInput = 2,
  kNothingFits = 3,
  kMeasurementsMissing = 4,
  kRefused = 5,
  kUnavailable = 6,
  kNotFound = 7,
};

ExitStatus ExitStatusOf(const absl::Status& status) {
  if (status.ok()) return kOk;
  if (const std::optional<ErrorDetail> detail = GetErrorDetail(status); detail.has_value()) {
    switch (detail->reason) {
      case Reason::kNoFeasiblePlan:
        return kNothingFits;
      case Reason::kProfileMissing:
        return kMeasurementsMissing;
      case Reason::kTopologyMismatch:
      case Reason::kPlanExpired:
      case Reason::kSignatureInvalid:
      case Reason::kPayloadMalformed:
      case Reason::kAudienceMismatch:
        return kRefused;
      case Reason::kSearchOutOfMemory:
        return kBadInput;
      default:
        break;
    }
  }
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return kBadInput;
    // The plan is for another model.
    case absl::StatusCode::kFailedPrecondition:
      return kRefused;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kCancelled:
      return kUnavailable;
    default:
      return kFailed;
  }
}

int Main(int argc, char** argv) {
  const std::variant<SidecarFlags, int> read = ReadFlags(argc, argv);
  if (const int* const exit_status = std::get_if<int>(&read)) return *exit_status;
  const auto& flags = std::get<SidecarFlags>(read);
  absl::Status status;
  if (flags.command == SidecarFlags::Command::kInit) {
    // The first process of a container has no default actions.
    for (const int signal : {SIGTERM, SIGINT}) {
      std::signal(signal, [](int number) { ::_exit(128 + number); });
    }
    status = RunInit(flags);
  } else {
    // Before there are any threads.
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    status = RunBeside(flags, signals);
  }
  if (!status.ok()) {
    const std::optional<ErrorDetail> detail = GetErrorDetail(status);
    const std::string reason = detail.has_value() ? std::string(ReasonName(detail->reason)) : "";
    const std::string message(status.message());
    // A sidecar that stays has a log for it; `init` answers whoever started the pod.
    if (flags.command == SidecarFlags::Command::kInit) {
      std::cerr << "parplan-sidecar: " << reason << (reason.empty() ? "" : ": ") << message
                << std::endl;
    } else {
      LogEvent("error", "ended", {{"reason", reason}, {"message", message}});
    }
  }
  return ExitStatusOf(status);
}

}  // namespace
}  // namespace parplan::sidecar

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return parplan::sidecar::Main(argc, argv);
  } catch (const std::exception& error) {
    parplan::LogEvent("error", "ended", {{"message", error.what()}});
    return 1;
  }
}
