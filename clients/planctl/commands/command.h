// The commands of planctl. main.cc adds them.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_COMMAND_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_COMMAND_H_

#include "base/service/shell/command_program.h"

namespace parplan::planctl {

using shell::Action;
using shell::Command;
using shell::Note;
using shell::Print;
using shell::Session;

// Each adds one command (with its sub-commands) to the program, before the command line is parsed.
// `session` says how to answer (command_program.h). The command chosen sets `action`, which
// RunCommands calls. Both outlive parsing and the action.
void AddImportCommand(Command app, const Session& session, Action& action);
void AddProfileCommand(Command app, const Session& session, Action& action);
void AddCalibrationCommand(Command app, const Session& session, Action& action);
void AddPlanCommand(Command app, const Session& session, Action& action);
void AddShapeCommand(Command app, const Session& session, Action& action);
void AddRecommendCommand(Command app, const Session& session, Action& action);
void AddEvaluateCommand(Command app, const Session& session, Action& action);
void AddCompareCommand(Command app, const Session& session, Action& action);
void AddExplainCommand(Command app, const Session& session, Action& action);
void AddReportCommand(Command app, const Session& session, Action& action);
void AddTraceCommand(Command app, const Session& session, Action& action);
void AddVerifyCommand(Command app, const Session& session, Action& action);
void AddExportCommand(Command app, const Session& session, Action& action);
void AddIlpGraphCommand(Command app, const Session& session, Action& action);
void AddHardwareCommand(Command app, const Session& session, Action& action);
void AddStrategiesCommand(Command app, const Session& session, Action& action);
void AddCalibrateCommand(Command app, const Session& session, Action& action);
void AddRunsCommand(Command app, const Session& session, Action& action);
void AddExecutionsCommand(Command app, const Session& session, Action& action);
void AddCompletionCommand(Command app, const Session& session, Action& action);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_COMMAND_H_
