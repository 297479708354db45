// The script by which bash completes commands, flags, and their values. Called by
// `CompletionScript`.

#ifndef PARPLAN_BASE_SERVICE_SHELL_COMPLETION_BASH_COMPLETION_H_
#define PARPLAN_BASE_SERVICE_SHELL_COMPLETION_BASH_COMPLETION_H_

#include <string>
#include <vector>

#include "base/service/shell/completion/command_tree.h"

namespace parplan::shell {

// Returns the script for bash 4 or newer, without the comment that `CompletionScript` puts first.
// `tree` is what the function `CommandTree` (command_tree.h) returns: at least the program itself,
// which comes first.
//
// REQUIRES: `program` consists of letters and `-`, and the names of commands and flags, and the
// choices, of letters, digits and `-_.=+,:/%@`. Nothing checks it: `compgen -W` expands its words,
// so bash would run what a quote, `$`, a backtick or a backslash starts, and break a word at a
// blank.
std::string BashCompletion(const std::string& program, const std::vector<CommandNode>& tree);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_COMPLETION_BASH_COMPLETION_H_
