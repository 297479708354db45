// The commands of parplan-server that look after its data and end: `parplan-server keys ...`,
// `store ...`, `access ...` and `audit ...`. main.cc runs them; without a command the program
// serves.

#ifndef PARPLAN_SERVER_MAIN_ADMIN_COMMANDS_H_
#define PARPLAN_SERVER_MAIN_ADMIN_COMMANDS_H_

#include "base/service/shell/command_program.h"

namespace parplan {

// Returns whether the first argument names a command, or is a flag that commands alone have
// (--format, --quiet).
bool NamesAdminCommand(int argc, const char* const* argv);

// Runs the command that the arguments name and returns the exit code of the program, which is that
// of planctl for the same error (docs/planctl.md). REQUIRES, unchecked: `NamesAdminCommand` is true
// of them; other arguments are an error of usage.
int RunAdminCommand(int argc, const char* const* argv);

// Each adds one command with its commands, which sets `action` if it is chosen. `session` and
// `action` outlive the parsing, and `session` the action. `RunAdminCommand` calls them, and
// `ReadSettings` for the help.
void AddKeysCommand(shell::Command app, const shell::Session& session, shell::Action& action);
void AddStoreCommand(shell::Command app, const shell::Session& session, shell::Action& action);
void AddAccessCommand(shell::Command app, const shell::Session& session, shell::Action& action);
void AddAuditCommand(shell::Command app, const shell::Session& session, shell::Action& action);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_ADMIN_COMMANDS_H_
