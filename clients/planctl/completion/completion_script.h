// Scripts by which shells complete commands, flags, and their values.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMPLETION_COMPLETION_SCRIPT_H_
#define PARPLAN_CLIENTS_PLANCTL_COMPLETION_COMPLETION_SCRIPT_H_

#include <string>
#include <vector>

#include "clients/planctl/completion/command_tree.h"

namespace parplan::planctl {

// For bash 4 or newer. `tree` is that of `CommandTree`; `program` is of letters and `-`.
std::string BashCompletion(const std::string& program, const std::vector<CommandNode>& tree);

// For fish 3 or newer.
std::string FishCompletion(const std::string& program, const std::vector<CommandNode>& tree);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMPLETION_COMPLETION_SCRIPT_H_
