// The program parplan-agent: measures a node once, or stays and keeps its profile up to date.

#include <csignal>
#include <iostream>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "base/error.h"
#include "base/service/log/event_log.h"
#include "profiler-agent/main/once.h"
#include "profiler-agent/main/settings.h"

namespace parplan {
namespace {

constexpr int kFailed = 1;
constexpr int kUsageError = 2;
constexpr int kBusy = 3;
constexpr int kStopped = 4;

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  if (IsBusyRefusal(status)) return kBusy;
  if (absl::IsCancelled(status)) return kStopped;
  return absl::IsInvalidArgument(status) ? kUsageError : kFailed;
}

absl::Status Run(Settings& settings) {
  if (settings.inventory_only) return PrintInventory(settings);
  absl::Status status = CompleteSettings(settings);
  if (!status.ok()) return status;
  return settings.once ? MeasureOnce(settings) : RunDaemon(settings.daemon);
}

// Says why the program ends: to the person who asked once, or in the log of an agent that stays.
void Report(const Settings& settings, const absl::Status& status) {
  const std::string message(status.message());
  if (settings.once || settings.inventory_only) {
    std::cerr << "parplan-agent: " << message << std::endl;
    return;
  }
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  LogEvent("error", "ended",
           {{"reason", detail.has_value() ? std::string(ReasonName(detail->reason)) : ""},
            {"message", message}});
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // A write beyond the file size limit returns an error.
  auto settings = parplan::ReadSettings(argc, argv);
  if (const int* const exit_code = std::get_if<int>(&settings)) return *exit_code;
  auto& asked = std::get<parplan::Settings>(settings);
  const absl::Status status = parplan::Run(asked);
  if (!status.ok()) parplan::Report(asked, status);
  return parplan::ExitCode(status);
}
