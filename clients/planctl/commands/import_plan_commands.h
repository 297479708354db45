// `planctl import deepspeed|accelerate|torch`: runs of today, and exported files, as plans without
// a prediction.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_IMPORT_PLAN_COMMANDS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_IMPORT_PLAN_COMMANDS_H_

#include "clients/planctl/commands/command.h"

namespace parplan::planctl {

// Adds the commands to `import`, the command `planctl import`, like the functions of command.h.
void AddImportPlanCommands(Command import, const Session& session, Action& action);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_IMPORT_PLAN_COMMANDS_H_
