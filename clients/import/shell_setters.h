// Follows what the commands of a shell script set: assignments, declarations, and commands of the
// shell such as `read` and `set`. `ReadLaunchScript` (launch_script.h) calls it. Runs nothing.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_SETTERS_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_SETTERS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "clients/import/shell_branches.h"
#include "clients/import/shell_text.h"
#include "clients/import/shell_variables.h"
#include "clients/import/shell_words.h"

namespace parplan {

// Sets the variables of a script, or makes them unknown where `run` says that a command only may
// run, or where its text does not say what it sets. Nothing happens for ShellRun::kNo. Errors are
// those of ShellVariables::Assign.
class ShellSetters {
 public:
  // `variables` must outlive the object.
  explicit ShellSetters(ShellVariables& variables) : variables_(variables) {}

  absl::Status Assign(const Assignment& assignment, ShellRun run);
  absl::Status AssignAll(const std::vector<Assignment>& assignments, ShellRun run);
  // Reads names, and the assignments behind an option such as `-A`, which changes what they mean,
  // or in quotation marks. A number behind `-i` is itself; other assignments behind options are not
  // known. `is_local`: a name alone is a variable that is not set.
  absl::Status ReadDeclaration(const std::vector<ShellWord>& words, bool is_local, ShellRun run);
  // Sets what `: ${NAME:=text}` gives as defaults.
  absl::Status SetDefaults(const std::vector<ShellWord>& words, ShellRun run);
  // Forgets the variables that a command of the shell itself sets, and follows `set` and `shift`.
  void ReadBuiltin(const std::vector<ShellWord>& words, ShellRun run);

 private:
  void ReadPositions(absl::string_view first, const std::vector<ShellWord>& words, ShellRun run);

  ShellVariables& variables_;
  // Variables with an option of `declare` that changes what an assignment means; true if numbers
  // remain themselves.
  std::map<std::string, bool> declared_;
  // Variables that are names of others (`declare -n`).
  std::set<std::string> references_;
};

// Returns the words that the arguments of a command expand to; nothing if their number or one of
// them is not known.
std::optional<std::vector<std::string>> KnownArguments(const std::vector<ShellWord>& words,
                                                       size_t begin, ShellVariables& variables);

// Returns the variables that commands may set, wherever in them, and whether they may replace the
// arguments of the script.
struct NamesInCommands {
  std::set<std::string> names;
  // The names of commands, which may be functions.
  std::set<std::string> programs;
  bool sets_positions = false;
  // A command may set any variable, as `eval` does.
  bool sets_any = false;
};
NamesInCommands NamesIn(const std::vector<ShellCommand>& commands, size_t begin, size_t end);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_SETTERS_H_
