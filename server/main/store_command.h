// The command that looks after the place where a server keeps its records.

#ifndef PARPLAN_SERVER_MAIN_STORE_COMMAND_H_
#define PARPLAN_SERVER_MAIN_STORE_COMMAND_H_

#include "clients/planctl/commands/command.h"

namespace parplan::planctl {

// As the others of command.h.
void AddStoreCommand(CLI::App& app, const Session& session, Action& action);

}  // namespace parplan::planctl

#endif  // PARPLAN_SERVER_MAIN_STORE_COMMAND_H_
