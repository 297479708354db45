// Completion of the commands, flags and values of a program by shells. Every program offers it:
// `RunCommands` and the programs without it call `AddCompletionOption`, `planctl completion` calls
// the other two.

#ifndef PARPLAN_BASE_SERVICE_SHELL_COMPLETION_COMPLETION_H_
#define PARPLAN_BASE_SERVICE_SHELL_COMPLETION_COMPLETION_H_

#include <string>
#include <vector>

#include "base/service/shell/command_line.h"

namespace parplan::shell {

// Lists the shells for which there is a script: `bash` and `fish`.
std::vector<std::string> CompletionShells();

// Returns the script by which `shell` completes the commands and flags that `program` has now,
// without hidden ones. Its first line is a comment that names `made_by`, the command line that
// prints the script. REQUIRES: `shell` is one of `CompletionShells`; aborts otherwise. Not checked:
// the name of the program and the names of its commands, flags and choices are as `BashCompletion`
// requires (bash_completion.h).
std::string CompletionScript(const Command& program, const std::string& shell,
                             const std::string& made_by);

// Adds the hidden option `--completion SHELL`, which prints the script and ends the program with
// exit code 0, as --version does; another shell is refused as any wrong value is. Packages are made
// with it. Called at any time before the arguments are parsed: the script has the commands and
// flags that `program` has when it is printed.
void AddCompletionOption(Command program);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_COMPLETION_COMPLETION_H_
