// Finds where the groups of a shell script end: `if ... fi`, loops, `case ... esac`, `{ ... }`,
// `( ... )` and the bodies of functions. Runs nothing. `ReadLaunchScript` (launch_script.h) asks.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_GROUPS_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_GROUPS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "clients/import/shell_text.h"

namespace parplan {

// Checks that each group of a script ends, and marks the words that open groups in a process of
// their own (`ShellWord::is_apart`), as parts of a pipeline and commands in front of `&` are.
//
// Returns what is wrong, for a sentence that begins with the name of the file: a group that does
// not end, or a `}`, `fi`, `done`, `esac`, `then`, `do`, `)` or `;;` without what opens it.
std::optional<std::string> MarkGroups(std::vector<ShellCommand>& commands);

// A function of a script.
struct ShellFunction {
  std::string name;
  // The words in front of its definition in the same command, such as `then`; may have no words.
  ShellCommand prefix;
  // Its body, with the braces or parentheses around it.
  std::vector<ShellCommand> body;
  // The place of the command behind the body.
  size_t end = 0;
};

// Returns the function whose definition, `NAME() { ... }` or `function NAME { ... }`, the command
// at `place` begins; nothing if it begins none. REQUIRES that `MarkGroups` found nothing wrong.
std::optional<ShellFunction> FunctionAt(const std::vector<ShellCommand>& commands, size_t place);

// Returns the place behind the command that ends the first group which the command at `place` opens
// at or behind its word `first`; `place` + 1 if it opens none.
size_t EndOfGroup(const std::vector<ShellCommand>& commands, size_t place, size_t first = 0);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_GROUPS_H_
