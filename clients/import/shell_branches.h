// Follows the branches of a shell script and says which ones run, as far as its text decides.
// `ReadLaunchScript` (launch_script.h) asks it. Runs nothing.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_BRANCHES_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_BRANCHES_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "clients/import/shell_text.h"
#include "clients/import/shell_variables.h"

namespace parplan {

// Whether a command runs.
enum class ShellRun { kNo, kMaybe, kYes };

// Returns whether a command runs in a branch that runs as `outer` says, of which `inner` is a part.
ShellRun Within(ShellRun outer, ShellRun inner);

// The branches that are open at one place of a script.
class ShellBranches {
 public:
  // Whether a command at this place runs.
  ShellRun run() const { return open_.empty() ? ShellRun::kYes : open_.back().run; }
  // Whether this place is between `if` or `elif` and `then`.
  bool in_condition() const { return !open_.empty() && open_.back().in_condition; }

  // `if`, in a place that runs as `outer` says.
  void OpenIf(ShellRun outer);
  // `then`, after a condition with this value; nothing if only a run knows it.
  void Then(std::optional<bool> condition);
  void Elif();
  void Else();
  // A loop: what is in it may run, or runs once if `is_once`.
  void OpenLoop(ShellRun outer, bool is_once);
  // A body in braces.
  void OpenGroup(ShellRun outer);
  // A call of a function.
  void OpenCall(ShellRun outer);
  size_t depth() const { return open_.size(); }
  // A subshell, or whatever runs in a process of its own.
  void OpenSubshell(ShellRun outer);
  // Says that what was opened last runs in a process of its own.
  void SetApart();
  // `return`, and `break` and `continue`, in a place that runs as `run` says: what follows in the
  // call, or in the innermost loop, does not run then. `is_far`: a loop around that one may end
  // too.
  void Return(ShellRun run);
  void EndLoop(ShellRun run, bool is_far);
  // `case` over a text; nothing if only a run knows it.
  void OpenCase(ShellRun outer, std::optional<std::string> subject);
  // One of the patterns in front of an arm; a `(` among them, in front of the first one or of an
  // extended pattern such as `@(a|b)`, which is not computed; and a `)`, which may be the last one.
  void Pattern(const ShellWord& pattern, ShellVariables& variables);
  void OpenPatterns();
  void EndPatterns();
  // The end of an arm, by `;;`, or by `;&`, which `falls` into the next arm.
  void EndArm(bool falls);
  // `;;&` behind the end of an arm: those that follow are tried whether this one was taken or not.
  void TryFurtherArms();
  // Whether this place is between `in` or `;;` and the `)` of an arm.
  bool in_patterns() const { return !open_.empty() && open_.back().in_patterns; }
  // Whether any open one runs in a process of its own.
  bool in_any_subshell() const {
    return std::any_of(open_.begin(), open_.end(),
                       [](const Branch& branch) { return branch.is_subshell; });
  }
  bool in_subshell() const { return !open_.empty() && open_.back().is_subshell; }
  // The end of the innermost one. Nothing happens if none is open.
  void Close();

 private:
  struct Branch {
    bool is_if = false;
    bool in_condition = false;
    bool is_subshell = false;
    bool in_patterns = false;
    bool is_case = false;
    // Whether a pattern of this arm was read, how many extended ones are open, and whether one was.
    bool has_pattern = false;
    int parentheses = 0;
    bool is_extended = false;
    bool is_call = false;
    bool is_loop = false;
    // The text of `case`; nothing if it is not known.
    std::optional<std::string> subject;
    // Whether one of the patterns of this arm matches.
    ShellRun patterns = ShellRun::kNo;
    // Whether the arm before this one goes on in it.
    bool falls = false;
    ShellRun outer = ShellRun::kYes;
    ShellRun run = ShellRun::kYes;
    // Whether one of the arms before this one is taken.
    ShellRun earlier = ShellRun::kNo;
  };
  // Returns whether an arm is reached after those before it.
  static ShellRun Rest(const Branch& branch);

  // Makes what follows in the open branches from `first` run as little as `limit`.
  void LimitFrom(size_t first, ShellRun limit);

  std::vector<Branch> open_;
};

// Returns the value of a test, the words between `[` and `]` or `[[` and `]]`: a text alone, `-n`,
// `-z`, `=`, `==`, `!=`, `-eq`, `-ne`, `-lt`, `-le`, `-gt`, `-ge`, and `!` before any of them.
// Returns nothing for all else, such as a file that exists, for a pattern with `*`, `?` or `[`, and
// if a text is not known (ShellVariables::TextOf).
std::optional<bool> ValueOfTest(const std::vector<ShellWord>& words, ShellVariables& variables);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_BRANCHES_H_
