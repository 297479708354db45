// The script by which fish completes commands, flags, and their values. Called by
// `CompletionScript`.

#ifndef PARPLAN_BASE_SERVICE_SHELL_COMPLETION_FISH_COMPLETION_H_
#define PARPLAN_BASE_SERVICE_SHELL_COMPLETION_FISH_COMPLETION_H_

#include <string>
#include <vector>

#include "base/service/shell/completion/command_tree.h"

namespace parplan::shell {

// Returns the script for fish 3 or newer, without the comment that `CompletionScript` puts first.
// `tree` comes from `CommandTree` (command_tree.h). Arguments without a flag have no lines in it.
//
// REQUIRES: `program`, the names of commands and flags, and the choices are as `BashCompletion`
// requires (bash_completion.h). Nothing checks it: fish expands the words of `-a`, so it would run
// what a `(` begins, and break a word at a blank. Help texts may have any characters.
std::string FishCompletion(const std::string& program, const std::vector<CommandNode>& tree);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_COMPLETION_FISH_COMPLETION_H_
