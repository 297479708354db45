// Completion of the commands, flags and values of a program by shells. Every program's command line
// offers it.

#ifndef PARPLAN_BASE_SERVICE_SHELL_COMPLETION_COMPLETION_H_
#define PARPLAN_BASE_SERVICE_SHELL_COMPLETION_COMPLETION_H_

#include <string>
#include <vector>

#include "base/service/shell/command_line.h"

namespace parplan::shell {

// Lists the shells for which there is a script.
std::vector<std::string> CompletionShells();

// Returns the script by which `shell` completes the commands and flags that `program` has now,
// without hidden ones. Its first line says that `command` prints it. REQUIRES: `shell` is one of
// `CompletionShells`.
std::string CompletionScript(const Command& program, const std::string& shell,
                             const std::string& command);

// Adds the hidden option `--completion SHELL`, which prints the script and ends the program like
// --version does. Packages are made with it. Called at any time before the arguments are parsed:
// the script has the commands and flags that `program` has when it is printed.
void AddCompletionOption(Command program);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_COMPLETION_COMPLETION_H_
