// The commands that Slurm runs around a job. main.cc adds them.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_SLURM_COMMANDS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_SLURM_COMMANDS_H_

#include "clients/planctl/commands/command.h"

namespace parplan::planctl {

// Adds `slurm-prolog`, `slurm-node-prolog`, `slurm-epilog` and `slurm-node-epilog`, like the
// functions of command.h, but without a session: they log instead of answering (docs/slurm.md). The
// actions of prologs fail only to have Slurm requeue the job or drain the node, those of epilogs
// never. An alarm ends the process if an action takes too long. `action` outlives parsing and its
// own run.
void AddSlurmCommands(Command app, Action& action);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_SLURM_COMMANDS_H_
