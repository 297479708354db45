// A program of commands, such as `planctl plan`: what all its commands share, and its run from the
// arguments to the exit code. planctl, parplan-study and the administration commands of
// parplan-server are such programs.
//
//   int main(int argc, char** argv) {
//     return parplan::shell::RunCommands({"planctl", "Plans ...", "Example: ...", "0.1.0"},
//                                        &AddAllCommands, argc, argv);
//   }

#ifndef PARPLAN_BASE_SERVICE_SHELL_COMMAND_PROGRAM_H_
#define PARPLAN_BASE_SERVICE_SHELL_COMMAND_PROGRAM_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/service/shell/command_line.h"

namespace parplan::shell {

// How to answer. Set before a command runs.
struct Session {
  // One JSON object on standard output instead of text.
  bool json = false;
  // No progress and notes on standard error.
  bool quiet = false;
  // Whether standard output has its answer; set by `Print`.
  mutable bool answered = false;
};

// The work of a command, called once its arguments are read.
using Action = std::function<absl::Status()>;

// Adds commands to the program. Each command, once chosen (`Command::OnChosen`), sets `action`; an
// action that stays empty ends the program as INTERNAL. `session` and `action` outlive the run of
// the action; `session.json` has its value only then.
using AddCommands = std::function<void(Command program, const Session& session, Action& action)>;

// The texts of a program of commands, and how it words errors. `RunCommands` reads them.
struct CommandProgram {
  // Name as users type it, for example `planctl`.
  std::string name;
  // Begins the help: one sentence.
  std::string description;
  // Ends the help of the program: exit codes, an example.
  std::string footer;
  // Printed by --version after the name.
  std::string version;
  // Returns the error of a command in the words of the program's users, for example with the flag
  // for a field; called with an error, and must return one. Empty: errors stay as they are.
  std::function<absl::Status(const absl::Status& error)> reword_error = nullptr;
};

// Reads the arguments, which name exactly one command, and runs it. Adds the flags --format,
// --quiet and --version, which every command takes as well, and a hidden --completion. Prints
// errors to standard error, and with `--format json` as one object to standard output unless the
// command has answered already. `add_commands` is called once, before the parsing. A
// `std::exception` that the command throws counts as INTERNAL; others, and those of `add_commands`,
// are not caught. Returns the exit code (exit_code.h): 0 also after --help, --version and
// --completion, unless standard output is closed or its disk is full, which is 1.
int RunCommands(const CommandProgram& program, const AddCommands& add_commands, int argc,
                const char* const* argv);

// Prints `PrintableText(text)` to standard output, without adding a newline, and flushes. The
// caller makes JSON of it if `session.json`. Sets `session.answered`, also if it fails: INTERNAL if
// standard output is closed or its disk is full.
absl::Status Print(const Session& session, absl::string_view text);

// Prints `PrintableText(text)` as a line to standard error unless the session is quiet.
void Note(const Session& session, absl::string_view text);

// Adds a hidden command `name` that only says, as INVALID_ARGUMENT (SPEC_INVALID), which command
// line replaces it; takes any arguments.
void AddMovedCommand(Command program, Action& action, const std::string& name,
                     const std::string& replacement);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_COMMAND_PROGRAM_H_
