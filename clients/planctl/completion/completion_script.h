// Scripts by which shells complete commands, flags, and their values.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMPLETION_COMPLETION_SCRIPT_H_
#define PARPLAN_CLIENTS_PLANCTL_COMPLETION_COMPLETION_SCRIPT_H_

#include <string>
#include <vector>

#include "clients/planctl/completion/command_tree.h"

namespace parplan::planctl {

// Returns a completion script for bash 4 or newer. `tree` comes from `CommandTree`; `program`
// consists of letters and `-`.
std::string BashCompletion(const std::string& program, const std::vector<CommandNode>& tree);

// Returns the same for fish 3 or newer.
std::string FishCompletion(const std::string& program, const std::vector<CommandNode>& tree);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMPLETION_COMPLETION_SCRIPT_H_
