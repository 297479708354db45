// parplan-exec: trains a model exactly as a verified plan says (docs/executor.md).

#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/service/log/event_log.h"
#include "base/status_macros.h"
#include "clients/cpp/execution_sink.h"
#include "executor/device/backend/load_backend.h"
#include "executor/device/ranks/rank_environment.h"
#include "executor/device/ranks/rank_processes.h"
#include "executor/exec/exec_flags.h"
#include "executor/exec/exec_inputs.h"
#include "executor/exec/execution_notes.h"
#include "executor/exec/rank_run.h"

namespace parplan {
namespace {

enum ExitStatus {
  kOk = 0,
  kFailed = 1,
  kBadInput = 2,
  kRefused = 5,
  kNoBackend = 6,
};

// Limit for reporting to the server that a job has failed.
constexpr absl::Duration kCloseTimeout = absl::Seconds(20);

ExitStatus ExitStatusOf(const absl::Status& status) {
  if (status.ok()) return kOk;
  if (GetBackendFault(status).has_value()) return kNoBackend;
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (detail.has_value()) {
    switch (detail->reason) {
      case Reason::kSignatureInvalid:
      case Reason::kPayloadMalformed:
      case Reason::kPlanExpired:
      case Reason::kAudienceMismatch:
      case Reason::kTopologyMismatch:
        return kRefused;
      default:
        break;
    }
    // The plan is valid, but for another model.
    if (absl::IsFailedPrecondition(status)) return kRefused;
  }
  return absl::IsInvalidArgument(status) ? kBadInput : kFailed;
}

std::string ReasonOf(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() ? std::string(ReasonName(detail->reason)) : "";
}

// Answers whoever gave a command that is refused before any rank runs.
void Answer(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  std::cerr << "parplan-exec: " << reason << (reason.empty() ? "" : ": ") << status.message()
            << std::endl;
}

// Logs what went wrong in a job or rank that has begun.
void Log(const char* level, const char* event, const absl::Status& status) {
  LogEvent(level, event,
           {{"reason", ReasonOf(status)}, {"message", std::string(status.message())}});
}

// Finds errors of the flags for the server, which the reporter would take for files that are being
// renewed.
absl::Status CheckServer(const ExecFlags& flags) {
  return flags.reports() ? MakeServerSink(flags.server).status() : absl::OkStatus();
}

int RunAsRank(const ExecFlags& flags, const RankEnvironment& self) {
  bool joined = false;
  // Rank 0 alone reports. The launcher of this program has checked the flags before.
  const bool is_first = self.rank == 0 && self.launcher != Launcher::kParplan;
  absl::Status status = is_first ? CheckServer(flags) : absl::OkStatus();
  if (status.ok()) status = RunRank(flags, self, joined);
  if (status.ok()) return kOk;
  Log("error", "ended", status);
  const bool is_hearsay = joined && (absl::IsUnavailable(status) || absl::IsAborted(status));
  return is_hearsay ? kExitAfterAnother : ExitStatusOf(status);
}

// Finds the errors that every rank would find, and those of the server's flags.
absl::Status Check(const ExecFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const ExecInputs inputs, ReadInputs(flags, absl::Now()));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceBackend> backend,
                           LoadBackend(flags.backend));
  for (int rank = 0; rank < flags.ranks; ++rank) {
    PARPLAN_ASSIGN_OR_RETURN(const DeviceFacts facts,
                             backend->Describe(rank % backend->device_count()));
    PARPLAN_RETURN_IF_ERROR(inputs.plan.CheckDevice(rank, flags.ranks, facts));
  }
  return CheckServer(flags);
}

// Closes executions that rank 0 left open, for example because it was killed.
void CloseExecutions(const ExecFlags& flags, const std::string& notes, const absl::Status& cause) {
  for (const std::string& execution : LeftOpen(notes)) {
    const absl::Status reported =
        FailExecution([&flags] { return MakeServerSink(flags.server); }, execution,
                      std::string(cause.message()), kCloseTimeout);
    if (!reported.ok()) Log("warning", "the server was not told of the failure", reported);
  }
}

int Launch(const ExecFlags& flags, int argc, char** argv) {
  // Such errors are answered once, before there are processes.
  const absl::Status checked = Check(flags);
  if (!checked.ok()) {
    Answer(checked);
    return ExitStatusOf(checked);
  }
  RankProcessesOptions options = {.rank_count = flags.ranks, .argv = {"/proc/self/exe"}};
  for (int k = 1; k < argc; ++k) options.argv.emplace_back(argv[k]);
  options.pins = flags.PinsToCores();
  options.heeds_signals = true;
  options.grace = absl::Seconds(flags.grace_seconds);
  if (flags.time_limit_seconds > 0.0) options.time_limit = absl::Seconds(flags.time_limit_seconds);
  absl::StatusOr<std::unique_ptr<RankProcesses>> ranks = RankProcesses::Start(std::move(options));
  if (!ranks.ok()) {
    Log("error", "ended", ranks.status());
    return kFailed;
  }
  const absl::Status status = (*ranks)->Wait();
  const std::string notes = (*ranks)->results().front();
  // After this a signal ends this process at once.
  ranks->reset();
  if (status.ok()) return kOk;
  Log("error", "ended", status);
  CloseExecutions(flags, notes, status);
  return kFailed;
}

int Run(int argc, char** argv) {
  ExecFlags flags;
  const int parsed = ParseFlags(argc, argv, flags);
  if (parsed >= 0) return parsed;
  const absl::StatusOr<std::optional<RankEnvironment>> self = RankEnvironment::FromEnvironment();
  if (!self.ok()) {
    Answer(self.status());
    return kBadInput;
  }
  // Ranks that this program launched have its arguments. Within the job of another launcher,
  // --ranks still launches ranks.
  const bool is_ours = self->has_value() && (*self)->launcher == Launcher::kParplan;
  if (flags.ranks > 0 && !is_ours) return Launch(flags, argc, argv);
  if (self->has_value()) return RunAsRank(flags, **self);
  std::cerr << "parplan-exec: give --ranks N, or start it by torchrun, mpirun or srun "
               "(docs/ranks.md)"
            << std::endl;
  return kBadInput;
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  try {
    return parplan::Run(argc, argv);
  } catch (const std::exception& error) {
    parplan::LogEvent("error", "ended", {{"message", error.what()}});
    return 1;
  }
}
