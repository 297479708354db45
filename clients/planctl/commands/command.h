// What every command of planctl has in common.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_COMMAND_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_COMMAND_H_

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace parplan::planctl {

// How to answer. Set before a command runs.
struct Session {
  // One JSON object on standard output instead of text.
  bool json = false;
  // No progress on standard error.
  bool quiet = false;
  // Whether standard output has its answer; set by `Print`.
  mutable bool answered = false;
};

// What a command does once its arguments are read.
using Action = std::function<absl::Status()>;

// Each adds one command (with its sub-commands) to `app`. `session` and
// `action` outlive the parsing; the command chosen sets `action`.
void AddAccuracyCommand(CLI::App& app, const Session& session, Action& action);
void AddImportCommand(CLI::App& app, const Session& session, Action& action);
void AddProfileCommand(CLI::App& app, const Session& session, Action& action);
void AddCalibrationCommand(CLI::App& app, const Session& session, Action& action);
void AddParityCommand(CLI::App& app, const Session& session, Action& action);
void AddPlanCommand(CLI::App& app, const Session& session, Action& action);
void AddShapeCommand(CLI::App& app, const Session& session, Action& action);
void AddEvaluateCommand(CLI::App& app, const Session& session, Action& action);
void AddCompareCommand(CLI::App& app, const Session& session, Action& action);
void AddExplainCommand(CLI::App& app, const Session& session, Action& action);
void AddReportCommand(CLI::App& app, const Session& session, Action& action);
void AddVerifyCommand(CLI::App& app, const Session& session, Action& action);
void AddExportCommand(CLI::App& app, const Session& session, Action& action);
void AddHardwareCommand(CLI::App& app, const Session& session, Action& action);
void AddCalibrateCommand(CLI::App& app, const Session& session, Action& action);
void AddOracleCommand(CLI::App& app, const Session& session, Action& action);
void AddIlpTableCommand(CLI::App& app, const Session& session, Action& action);
void AddRunsCommand(CLI::App& app, const Session& session, Action& action);
void AddExecutionsCommand(CLI::App& app, const Session& session, Action& action);
void AddKeysCommand(CLI::App& app, const Session& session, Action& action);
void AddCompletionCommand(CLI::App& app, const Session& session, Action& action);

// Prints to standard output. INTERNAL when it is closed or full.
absl::Status Print(const Session& session, absl::string_view text);

// A line on standard error unless the session is quiet.
void Note(const Session& session, absl::string_view text);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_COMMAND_H_
