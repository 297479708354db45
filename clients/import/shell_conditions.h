// The values of commands: whether the text of a shell script says that they succeed, and so whether
// the command behind `&&` or `||` runs. `ReadLaunchScript` (launch_script.h) asks. Runs nothing.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_CONDITIONS_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_CONDITIONS_H_

#include <optional>
#include <vector>

#include "clients/import/shell_branches.h"
#include "clients/import/shell_text.h"
#include "clients/import/shell_variables.h"

namespace parplan {

// Follows the values of commands in their order.
class ShellConditions {
 public:
  // Returns whether a command runs behind the one before it.
  ShellRun RunOf(ShellJoint joint) const;
  // Reads the words of a command behind its keywords, `!` among them, and keeps its value for the
  // command behind it and for the branch whose condition it is. `run` says whether it runs.
  void Read(ShellJoint joint, ShellRun run, std::vector<ShellWord> words, bool is_negated,
            bool in_condition, ShellVariables& variables);

  // The value of the command before, as far as the text says.
  std::optional<bool> last() const { return last_; }
  // Makes it unknown, as behind a group.
  void ForgetLast() { last_ = std::nullopt; }
  // Says that the command before, though no test, may fail.
  void ForgetSuccess() {
    last_ = std::nullopt;
    is_last_ordinary_ = false;
  }
  // Whether a `[[` is open; signs in it are of its parts.
  bool in_test() const { return is_in_test_; }
  // Makes the value of the open test unknown, as parentheses in it do.
  void ForgetTest() { is_test_known_ = false; }
  void EndTest() { is_in_test_ = false; }

 private:
  std::optional<bool> ValueOfCommand(ShellJoint joint, std::vector<ShellWord> words,
                                     bool is_negated, bool in_condition, ShellVariables& variables);
  // Returns the value of two parts of one test; nothing where the signs are not all the same, since
  // `&&` goes before `||` there.
  std::optional<bool> Joined(ShellJoint joint, std::optional<bool> value);

  // The value of the command before; and whether that is no test, and its success is expected.
  std::optional<bool> last_;
  bool is_last_ordinary_ = false;
  // Whether a `[[` is open, whether its value can be known, and how its parts are joined so far.
  bool is_in_test_ = false;
  bool is_test_known_ = true;
  ShellJoint test_joint_ = ShellJoint::kAfter;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_CONDITIONS_H_
