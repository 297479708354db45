// Reads the commands of a launch script in their order. `ReadLaunchScript` (launch_script.h) is its
// only caller.

#ifndef PARPLAN_CLIENTS_IMPORT_SCRIPT_READER_H_
#define PARPLAN_CLIENTS_IMPORT_SCRIPT_READER_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/launch_script.h"
#include "clients/import/named_text.h"
#include "clients/import/shell_branches.h"
#include "clients/import/shell_conditions.h"
#include "clients/import/shell_groups.h"
#include "clients/import/shell_setters.h"
#include "clients/import/shell_text.h"
#include "clients/import/shell_variables.h"
#include "clients/import/shell_words.h"

namespace parplan {

// Commands that are read or looked through, each time that they are. Scripts of people have
// hundreds; four times as many took 6 s without optimisation on a busy machine.
constexpr size_t kMaxScriptSteps = size_t{1} << 16;

// Reads one script. `file` must outlive the object.
class ScriptReader {
 public:
  ScriptReader(const NamedText& file, absl::string_view required_argument)
      : file_(file),
        required_argument_(required_argument),
        variables_(kMaxImportBytes),
        setters_(variables_) {}

  absl::StatusOr<LaunchCommand> Read();

 private:
  absl::Status Fault(absl::string_view rule) const;

  // Returns the command that was found, with its notes. REQUIRES, unchecked: one was.
  absl::StatusOr<LaunchCommand> TakeFound();

  // Reads a text within a word of the script, such as that of `bash -c`, `inner_lines` deep. Texts
  // that are no script are left out.
  absl::Status ReadInner(absl::string_view text, int inner_lines);

  // Reads the words of `eval`, which are a script of their own.
  absl::Status ReadEvaluated(const std::vector<ShellWord>& words, ShellRun run, int inner_lines);

  absl::Status ReadCommands(const std::vector<ShellCommand>& commands, int inner_lines);

  // Limits the work for calls within calls and loops within loops.
  absl::Status CountSteps(size_t count);

  // Counts the commands of a body, and its words.
  absl::Status CountBody(const std::vector<ShellCommand>& body);

  void Define(ShellFunction function);

  // Forgets what commands may set, with what the functions that they call may.
  void ForgetNames(const NamesInCommands& names, std::set<std::string>& seen);

  // Reads the body of the function that `words` call. `assignments` stand in front of the call and
  // end with it.
  absl::Status Call(const std::vector<ShellWord>& words, const std::vector<Assignment>& assignments,
                    ShellRun run, int inner_lines);

  // Keeps what the local variables of a function are outside of it: nothing for one that only a run
  // makes local.
  void SaveLocals(const std::vector<Assignment>& assignments, const std::vector<ShellWord>& words,
                  ShellRun run);

  // Reads the functions that nothing calls, which a run may call by a name that the text lacks.
  absl::Status ReadUncalled();

  // The words that lead a command: keywords and assignments.
  struct Leading {
    bool is_negated = false;
    bool is_declaration = false;
    bool is_local = false;
    // A group ended, whose value is not followed.
    bool has_closer = false;
    // The rest of the command was read too.
    bool is_whole = false;
    std::vector<Assignment> assignments;
    size_t end = 0;
  };

  // Reads them, of the command at `place`.
  absl::StatusOr<Leading> ReadLeading(const std::vector<ShellCommand>& commands, size_t place,
                                      ShellRun run);

  // Reads `case TEXT in PATTERN`, of which `case` is the word at `begin`.
  void ReadCase(const std::vector<ShellWord>& words, size_t begin, ShellRun run);

  // Opens the loop of the word at `word`. One over a single known value runs once, and one over
  // none does not run; what others set is not known in any of their rounds.
  absl::Status OpenLoop(const std::vector<ShellCommand>& commands, size_t place, size_t word,
                        ShellRun run);

  absl::Status ReadCommand(const std::vector<ShellCommand>& commands, size_t place,
                           int inner_lines);

  // Makes the name of a function or of a command of the shell plain where it is written otherwise,
  // as by `"eval"`, `\eval`, `$NAME` or `command eval`. Returns whether functions of the name do
  // not count, as behind `command`.
  bool ReadName(std::vector<ShellWord>& words);

  // Follows `unset` of functions, and of the local variables of callers.
  void ReadUnset(const std::vector<ShellWord>& words);

  // Expands the assignments of `export` and the like, all of which see what was set before it.
  absl::Status ExpandDeclared(bool is_local, ShellRun run, std::vector<Assignment>& assignments);

  // Whether the body of a function has what may make it fail without a program that fails.
  bool MayFail(const std::string& name, std::set<std::string>& seen);

  // Reads the signs of subshells and of `case`, and its patterns. Returns whether it was one.
  bool ReadSign(const ShellCommand& command, ShellRun run);

  // Whether a command runs that its joint lets run as `run` says.
  ShellRun Here(ShellRun run) const { return Within(branches_.run(), run); }

  // Says that the group which was opened last runs in a process of its own.
  void OpenApart();

  void Close();

  // Follows branches. Returns whether another command may follow the word.
  bool ReadKeyword(const std::string& word, ShellRun run);

  // Returns the place of the Python program in the words of a command.
  static std::vector<std::string>::const_iterator ProgramIn(const std::vector<std::string>& words);

  absl::Status ReadWords(const std::vector<std::string>& words, int inner_lines);

  // A function of the script; one that only a run may define is not certain.
  struct Function {
    std::vector<ShellCommand> body;
    // The variables that each of its definitions may set.
    std::vector<NamesInCommands> names;
    bool is_certain = true;
    bool is_called = false;
  };

  const NamedText& file_;
  const absl::string_view required_argument_;
  ShellVariables variables_;
  ShellSetters setters_;
  ShellBranches branches_;
  ShellConditions conditions_;
  std::map<std::string, Function> functions_;
  // The local variables of the functions that are being read, innermost last, and what they are
  // outside; nothing for one that may be local, and the name `$` if any may be.
  std::vector<std::map<std::string, std::optional<ShellVariables::Saved>>> frames_;
  size_t steps_left_ = kMaxScriptSteps;
  // The files of `source`, and what `eval` is given that is not known.
  std::set<std::string> sourced_;
  std::set<std::string> evaluated_;
  // Words of the command without text, since their variables are set in branches that are not
  // taken.
  std::set<std::string> left_out_;
  std::vector<LaunchCommand> found_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SCRIPT_READER_H_
