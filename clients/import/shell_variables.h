// Expands the words of a shell script by the variables that it sets as text. Runs nothing.
// `ReadLaunchScript` expands with it.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_VARIABLES_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_VARIABLES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "clients/import/shell_arithmetic.h"
#include "clients/import/shell_text.h"

namespace parplan {

// The variables of a script, as far as it sets them to text. The environment in which the script
// will run is not known, so a variable has a value only once the script has set it. Not
// thread-safe: expansion counts bytes.
//
// After RESOURCE_EXHAUSTED an object must not be used: every further expansion fails too.
class ShellVariables {
 public:
  using Value = std::vector<std::string>;
  // A variable at one time: absent if it was never set, and without a value if that is not
  // known.
  using Saved = std::optional<std::optional<Value>>;
  // The arguments of the script or of a function at one time.
  struct Positions {
    Saved values;
    bool are_known = true;
    bool are_set = false;
  };

  // Expansion may give less than `max_bytes` bytes of text in all calls together, those of assigned
  // values and a byte for each piece included.
  explicit ShellVariables(size_t max_bytes) : bytes_left_(max_bytes) {}

  // Opens a scope, such as a subshell: what is set in it has its old value when it is closed.
  void OpenScope() { scopes_.emplace_back(); }
  void CloseScope();

  // Expands `value` and sets the variable to it, or appends it if `appends`. The value of a scalar
  // is not split at blanks; the elements of an array are. A variable that was
  // never set is empty before an append; one whose value was forgotten stays unknown.
  // RESOURCE_EXHAUSTED as in `Expand`; the variable then has its old value.
  absl::Status Assign(const std::string& name, bool appends, const ShellWord& value);
  // Makes the value of a variable unknown until it is set again, for example because only a run of
  // the script decides about it.
  void Forget(const std::string& name);
  // Says that the script sets the variable to arguments of a program where it is known not to run.
  void NoteLeftOut(const std::string& name) { left_out_.insert(name); }
  // Returns whether a word that stayed as text, `$NAME` or `${NAME[@]}`, is such a variable that
  // the script has set nowhere else, and so has no text.
  bool IsLeftOut(absl::string_view word) const;
  // Makes a variable one that was never set.
  void Unset(const std::string& name);
  // Makes all variables unknown until they are set again, those that were never set too.
  void ForgetAll();
  // Returns what a variable is, and gives it back, as for `local`. Saved values count as text.
  Saved Save(const std::string& name);
  void Restore(const std::string& name, Saved saved);
  // Sets the arguments of the script, `$1` and so on, to those of `set --` or of a function;
  // nothing makes them unknown. Before, they were never set.
  void SetPositions(std::optional<std::vector<std::string>> values);
  // Makes the arguments of the script unknown; the second only if they were ever set.
  void ForgetPositions();
  void ForgetKnownPositions();
  // Says that the arguments are those of the place, as in a function.
  void KnowPositions() { has_positions_ = true; }
  // Drops the first arguments, as `shift` does: none if there are fewer. Makes those unknown that
  // were never set.
  void ShiftPositions(size_t count);
  Positions SavePositions();
  void RestorePositions(Positions positions);
  // Makes the arguments those of a shell that the script starts: not known, and left out by
  // `Expand` as those of the script are unless `are_given`.
  void EnterShell(bool are_given);
  // Appends to `words` the words that a word expands to, which may be none or, because values
  // outside quotation marks are split at blanks, several. `$((...))` over whole numbers is
  // computed, comparisons among them. `$NAME` of an array is its first element. Elements of an
  // array in the word itself are left out; `Assign` takes them. `${NAME:-text}` and its forms with
  // `-`, `:=` and `=` become the text if the variable was never set or, for those with `:`, is
  // empty, else its value; `${1:-text}` becomes the text, since arguments of the script
  // are not known. `:=` and `=` set nothing. Up to 16 may stand inside one another; deeper ones are
  // not known. `${NAME[1]}`, `${#NAME}`, `${#NAME[@]}`, `${!NAME}` and the changes of `ChangedText`
  // (shell_expansion.h) are computed of variables that are set. An array counts as text only, as a
  // whole, if an element outside quotation marks has a letter of patterns, braces or `~`, of which
  // a shell may make several. Once IFS is set, what it or a blank would split is not known.
  //
  // An expansion that is not known becomes text, which joins the text beside it: `$` and the name,
  // also for `${NAME}`; `$` and a single character, or `${@}` for `$@` and `$*`
  // once `set` has replaced the arguments; and `${...}` around anything else, for example
  // `${NAME[@]}`, `${NAME:-text}` if NAME was forgotten, `${(date)}` for `$(date)`, and
  // `${((B + 1))}` for a `$((B + 1))` that cannot be computed. Text in single quotation marks that
  // looks like that cannot be distinguished from it. RESOURCE_EXHAUSTED with no `Reason` if the sum
  // reaches `max_bytes`; `words` may then have gained some.
  absl::Status Expand(const ShellWord& word, std::vector<std::string>* words);
  // Returns what a word of a test expands to, not split. A variable that was never set, and an
  // argument of the script, are empty, and `taken_as_empty` has their names then. Returns nothing
  // for an array in the word, for an expansion that is not known, also within a value, and for more
  // than 64 KiB.
  std::optional<std::string> TextOf(const ShellWord& word);
  const std::set<std::string>& taken_as_empty() const { return taken_as_empty_; }

 private:
  // Keeps the value of a variable for the end of the innermost scope.
  void Keep(const std::string& name);
  // Returns the entry of a variable or of an argument of the script: null if it was never set.
  const std::optional<Value>* Find(const std::string& name);
  // Returns whether a value outside quotation marks is split at blanks alone.
  bool SplitsAtBlanks(const std::string& text) const;
  // Returns the value of the text of a variable piece; nothing if it is not known.
  std::optional<Value> ValueOf(const std::string& text);
  // Returns the value of an element, a length, a name behind a name, or a changed text.
  std::optional<Value> ValueOfForm(absl::string_view text);
  // Returns the value of `${name-text}`, and of `${name:-text}` if `is_for_empty`.
  std::optional<Value> ValueOrDefault(const std::string& name, bool is_for_empty,
                                      absl::string_view text);
  // Appends one piece to the last of `words`; `is_open` says whether that word has begun.
  void Append(const ShellPiece& piece, bool* is_open, std::vector<std::string>* words);
  void AddText(absl::string_view text, bool* is_open, std::vector<std::string>* words);

  size_t bytes_left_;
  // Steps of patterns of all calls together; as many take a fraction of a second.
  int64_t steps_left_ = int64_t{1} << 26;
  bool has_positions_ = true;
  // Whether the script has replaced its arguments at least once, or they are those of a function.
  bool has_set_positions_ = false;
  // Whether a variable that was never set may be set all the same.
  bool may_have_others_ = false;
  // The entry of an argument of the script, or of a variable that may be set, which `Find` returned
  // last.
  std::optional<Value> position_;
  // Number of defaults (`${a:-${b:-...}}`) around the one that is being read.
  int depth_ = 0;
  // The values of variables that were set or forgotten; absent if not known. The arguments of the
  // script are one value with the name `@`.
  std::map<std::string, std::optional<Value>> values_;
  // For each open scope the values that it replaced; absent if the variable had not been set.
  std::vector<std::map<std::string, Saved>> scopes_;
  // Names that were forgotten at least once.
  std::set<std::string> forgotten_;
  // Those of `NoteLeftOut`.
  std::set<std::string> left_out_;
  // Arrays of which a shell may have made more elements at least once.
  std::set<std::string> uncounted_;
  std::set<std::string> taken_as_empty_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_VARIABLES_H_
