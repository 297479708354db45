// The commands of a command line and what may follow each, as data: what completion in a shell
// needs to know. The scripts of bash and fish are made from it.

#ifndef PARPLAN_BASE_SERVICE_SHELL_COMPLETION_COMMAND_TREE_H_
#define PARPLAN_BASE_SERVICE_SHELL_COMPLETION_COMMAND_TREE_H_

#include <string>
#include <vector>

#include "base/service/shell/command_line.h"

namespace parplan::shell {

// The kind of value of a flag or of an argument without a flag.
enum class ValueKind {
  kNone,    // A flag without a value.
  kChoice,  // One of a few words.
  kFile,    // A path; also what might be one.
  kOther,   // A number or the like, which no shell can guess.
};

// A flag of a command, or an argument without a flag.
struct CommandValue {
  // `-h` and `--help`, the short ones first; empty for an argument without a flag.
  std::vector<std::string> names;
  // One line from the help.
  std::string help;
  ValueKind kind = ValueKind::kNone;
  std::vector<std::string> choices;  // The words of `kChoice`, else empty.
};

// A command and what may follow it.
struct CommandNode {
  // The words after the program: `keys rotate`; empty for the program itself.
  std::string path;
  std::string help;
  // Names of the direct sub-commands, in the order in which they were added.
  std::vector<std::string> commands;
  // Flags of the command, and those of the commands above it that may be given here too, but for
  // their --help and --version.
  std::vector<CommandValue> flags;
  // Arguments without a flag, in the order of the command line.
  std::vector<CommandValue> positionals;
};

// Lists the program first, then its sub-commands, each before its own. Hidden commands and flags
// are left out. The nodes are copies, so the program may end before them.
std::vector<CommandNode> CommandTree(const Command& program);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_COMPLETION_COMMAND_TREE_H_
