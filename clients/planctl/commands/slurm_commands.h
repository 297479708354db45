// The commands that Slurm runs around a job; as those of command.h.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_SLURM_COMMANDS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_SLURM_COMMANDS_H_

#include "clients/planctl/commands/command.h"

namespace parplan::planctl {

// `slurm-prolog`, `slurm-node-prolog`, `slurm-epilog`, `slurm-node-epilog`.
void AddSlurmCommands(Command app, Action& action);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_SLURM_COMMANDS_H_
