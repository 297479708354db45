// Expansions that change the text of a variable, as in `${NAME%.json}`. `ShellVariables`
// (shell_variables.h) computes them.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_EXPANSION_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_EXPANSION_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace parplan {

// Returns `text` after the change that stands behind the name of a variable in braces: `%p`, `%%p`,
// `#p`, `##p`, `/p/t`, `//p/t`, `/#p/t`, `/%p/t`, `^^`, `,,`, and `:n` and `:n:m` with whole
// numbers from 0. Patterns may have `*` and `?`. Returns nothing for other changes, and for
// patterns and texts with quotation marks, brackets, a backslash or variables.
std::optional<std::string> ChangedText(absl::string_view text, absl::string_view change);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_EXPANSION_H_
