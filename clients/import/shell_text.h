// Splits the text of a shell script into commands. Runs nothing. `ReadLaunchScript`
// (launch_script.h) and `ShellVariables` (shell_variables.h) parse with it.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_TEXT_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_TEXT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// A piece of a word: text, or an expansion.
struct ShellPiece {
  // The text of an expansion is what follows its `$`, without the braces of `${...}` and with the
  // parentheses of `$(...)` and `$((...))`: `NAME`, `NAME:-text`, `(date)`, `((2 * N))`. For
  // backquotes it is "(`)".
  std::string text;
  bool is_variable = false;
  // In quotation marks of either kind, or behind a backslash: what it expands to is not split.
  bool is_quoted = false;
};

// A word before expansion; `NAME=(...)` is one word with the piece `NAME=` and the elements of the
// array, which other words do not have.
struct ShellWord {
  std::vector<ShellPiece> pieces;
  std::optional<std::vector<ShellWord>> elements;
  // The group that this word opens runs in a process of its own (`MarkGroups`, shell_groups.h).
  bool is_apart = false;
};

// How a command follows the one before it: it runs after it, or only if that succeeded (`&&`) or
// failed (`||`).
enum class ShellJoint { kAfter, kAnd, kOr };

// One command: assignments, a program and its arguments. Keywords such as `if` are words too.
// `(`, `)`, `;;` and `;&` are commands of one word; `((...))` is the words `((` and an expansion.
struct ShellCommand {
  ShellJoint joint = ShellJoint::kAfter;
  // It stands behind a `|`, or in front of a `|` or `&`, and so runs in a process of its own.
  bool follows_pipe = false;
  bool precedes_pipe = false;
  std::vector<ShellWord> words;
};

// Splits at line ends, `;`, `&`, `|` and parentheses. Comments, redirections and here-documents are
// left out; the regular expression behind `=~` is one word, and `<(...)` is an expansion. Returns
// nothing if a quotation, expansion or array is open at the end, or an array has an array in it.
std::optional<std::vector<ShellCommand>> SplitShellText(absl::string_view text);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_TEXT_H_
