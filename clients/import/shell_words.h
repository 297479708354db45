// The words of one command of a shell script: its assignments, what it sets and what it starts.
// `ReadLaunchScript` (launch_script.h) asks for them.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_WORDS_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_WORDS_H_

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "clients/import/launch_script.h"
#include "clients/import/named_text.h"
#include "clients/import/shell_text.h"

namespace parplan {

// Returns the text of a word without variables and quotations, or nothing.
std::optional<std::string> PlainText(const ShellWord& word);

// Returns a word as the script writes it, without its quotation marks, for a note.
std::string ShownWord(const ShellWord& word);

// An assignment `NAME=value` or `NAME+=value`.
struct Assignment {
  std::string name;
  bool appends = false;
  ShellWord value;
};

// Returns the assignment that a word is, or nothing.
std::optional<Assignment> AssignmentOf(const ShellWord& word);

// Returns the assignment that a word in quotation marks is for `export` and the like, or nothing.
std::optional<Assignment> QuotedAssignmentOf(const ShellWord& word);

// Returns the name of the array whose element a word sets, as `NAME[1]=8` does, or begins to set;
// or nothing.
std::optional<std::string> ElementNameOf(const ShellWord& word);

// Returns the arguments of the script that `set` gives it: words with their index in `words`, of
// which `set` is the first.
struct PositionsSet {
  // Whether it sets any, and whether the text says which.
  bool is_set = false;
  bool is_known = true;
  size_t begin = 0;
};
PositionsSet PositionsSetBy(const std::vector<ShellWord>& words);

// Returns whether a keyword makes variables of the assignments behind it, as `export` does.
bool IsDeclaration(absl::string_view word);

// Returns whether a command of this name is one of those of `NamesSetBy`.
bool SetsNames(absl::string_view program);

// Returns the variables that a command of the shell itself may change: `read`, `unset`, `let`,
// `((...))` with an assignment, `printf -v` and the like.
std::set<std::string> NamesSetBy(const std::vector<ShellWord>& words);

// Returns nodes times processes of a node, if torchrun is given both as numbers.
std::optional<int> DeviceCountOf(const std::vector<std::string>& words);

// Refuses variables that may hold arguments, and notes those that are values. INVALID_ARGUMENT
// (SPEC_INVALID) naming the file.
absl::Status CheckVariables(const NamedText& file, LaunchCommand* command);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_WORDS_H_
