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
// prints the script. REQUIRES: `shell` is one of `CompletionShells`; aborts otherwise. REQUIRES,
// unchecked, for every shell: the names of the program and of its commands, flags and choices have
// only the characters that `BashCompletion` allows (bash_completion.h); a shell would run parts of
// others.
std::string CompletionScript(const Command& program, const std::string& shell,
                             const std::string& made_by);

// Adds the hidden option `--completion SHELL`, which prints the script and ends the program with
// exit code 0, as --version does; another shell is refused as any wrong value is. The build of the
// packages makes their scripts with it. May be called at any time before the arguments are parsed,
// also before other flags are added: the script has the commands and flags that `program` has when
// it is printed.
void AddCompletionOption(Command program);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_COMPLETION_COMPLETION_H_
