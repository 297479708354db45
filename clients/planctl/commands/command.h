// The commands of planctl.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_COMMAND_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_COMMAND_H_

#include <CLI/CLI.hpp>

#include "base/service/shell/command_program.h"

namespace parplan::planctl {

using shell::Action;
using shell::Note;
using shell::Print;
using shell::Session;

// Each adds one command (with its sub-commands) to `app`. `session` and
// `action` outlive the parsing; the command chosen sets `action`.
void AddImportCommand(CLI::App& app, const Session& session, Action& action);
void AddProfileCommand(CLI::App& app, const Session& session, Action& action);
void AddCalibrationCommand(CLI::App& app, const Session& session, Action& action);
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
void AddRunsCommand(CLI::App& app, const Session& session, Action& action);
void AddExecutionsCommand(CLI::App& app, const Session& session, Action& action);
void AddCompletionCommand(CLI::App& app, const Session& session, Action& action);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_COMMAND_H_
