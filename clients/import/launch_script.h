// The command line of a Python program in the text of a shell script. `ImportMegatronRun`
// (megatron_run.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_LAUNCH_SCRIPT_H_
#define PARPLAN_CLIENTS_IMPORT_LAUNCH_SCRIPT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/named_text.h"

namespace parplan {

// The command of a script that starts the training program.
struct LaunchCommand {
  // The program, a path that ends in `.py`.
  std::string program;
  // The words behind it. A variable that the script does not set stays as text with a `$`
  // (shell_variables.h); `$@` and `$*` are left out, with a note.
  std::vector<std::string> arguments;
  // Nodes (one if not given) times processes of a node that the words before the program give
  // (--nnodes, --nproc-per-node, as torchrun has them); absent if the processes are not given, if
  // either is no number, or if the product is above kMaxImportCount.
  std::optional<int> device_count;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Finds the one command of a script that starts a Python program with the argument
// `required_argument`, for example `--micro-batch-size`, and expands what the script sets as text
// before it: variables, arrays, `+=`, `${NAME:-default}`, `$((...))`, a command line inside a word
// (`bash -c "..."`), and the branch of an `if` or `case` that the text decides (ValueOfTest, in
// shell_branches.h), as also commands behind `&&` and `||`. Functions set variables where they are
// called, with local variables and `return`; `eval` is read; a loop over one value runs once, and
// one over none does not run. Variables that tests ask for and
// that the script does not set count as empty, with a note, as do those that it sets to arguments
// in branches alone that it is known not to take. Branches that start the same program with the
// same arguments are one command. What a subshell or a part of a pipeline sets ends with it, and
// assignments in front of a program are for that program. Nothing is run, and files that the script
// sources are not read, with a note, nor is an unknown command of `eval`. Values that only a run of
// the script knows (`$1`, `$(...)`, what `read` and `let` set, assignments in other branches and
// loops, and what functions set that call themselves or that only a run defines) stay as the
// variable's name where they are one value of an argument.
//
// INVALID_ARGUMENT (SPEC_INVALID) naming the file for more than kMaxImportBytes, also after
// expansion; an open quotation or parenthesis; a group that does not end or begin; more than 2^16
// commands, those of functions counted for each call; no such command, or several; and a variable
// that is not set where it could hold arguments.
absl::StatusOr<LaunchCommand> ReadLaunchScript(const NamedText& file,
                                               absl::string_view required_argument);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LAUNCH_SCRIPT_H_
