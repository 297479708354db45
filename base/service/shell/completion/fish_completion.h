// The script by which fish completes commands, flags, and their values. Called by
// `CompletionScript`.

#ifndef PARPLAN_BASE_SERVICE_SHELL_COMPLETION_FISH_COMPLETION_H_
#define PARPLAN_BASE_SERVICE_SHELL_COMPLETION_FISH_COMPLETION_H_

#include <string>
#include <vector>

#include "base/service/shell/completion/command_tree.h"

namespace parplan::shell {

// Returns the script for fish 3 or newer, without the comment that `CompletionScript` puts first.
// `tree` comes from `CommandTree` (command_tree.h). REQUIRES: `program` consists of letters and
// `-`, and no name of a command or flag and no choice contains a quote or a blank; nothing checks
// it.
std::string FishCompletion(const std::string& program, const std::vector<CommandNode>& tree);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_COMPLETION_FISH_COMPLETION_H_
