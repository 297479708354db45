// Expands the words of a shell script by the variables that it sets as text. Runs nothing.
// `ReadLaunchScript` expands with it.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_VARIABLES_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_VARIABLES_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "clients/import/shell_text.h"

namespace parplan {

// The variables of a script, as far as it sets them to text.
class ShellVariables {
 public:
  // Results of expansion that are larger than `max_bytes` in sum are refused.
  explicit ShellVariables(size_t max_bytes) : bytes_left_(max_bytes) {}

  // Sets a variable, or appends to it. Values that are not known stay so.
  absl::Status Assign(const std::string& name, bool appends, const ShellWord& value);
  // Takes the value of a variable as not known from here on.
  void Forget(const std::string& name);
  // Returns the words that a word expands to; a variable without a known value stays `$NAME`, or
  // `${NAME[@]}` for an array. RESOURCE_EXHAUSTED beyond the limit.
  absl::Status Expand(const ShellWord& word, std::vector<std::string>* words);

 private:
  using Value = std::vector<std::string>;

  // Returns the value of the text of a variable piece; nothing if it is not known.
  std::optional<Value> ValueOf(const std::string& text);
  // Returns the value of `${name:-text}` and the like.
  std::optional<Value> ValueOrDefault(const std::string& name, absl::string_view text);
  // Appends one piece to the last of `words`; `is_open` says whether that word has begun.
  void Append(const ShellPiece& piece, bool* is_open, std::vector<std::string>* words);
  void AddText(absl::string_view text, bool* is_open, std::vector<std::string>* words);

  size_t bytes_left_;
  // Defaults inside of which a default is read.
  int depth_ = 0;
  // Absent values are not known.
  std::map<std::string, std::optional<Value>> values_;
  std::set<std::string> forgotten_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_VARIABLES_H_
