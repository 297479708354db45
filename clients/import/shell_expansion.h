// Expansions that change the text of a variable, as in `${NAME%.json}`. `ShellVariables`
// (shell_variables.h) computes them.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_EXPANSION_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_EXPANSION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace parplan {

// Returns `text` after the change that stands behind the name of a variable in braces: `%p`, `%%p`,
// `#p`, `##p`, `/p/t`, `//p/t`, `/#p/t`, `/%p/t`, `^^`, `,,`, and `:n` and `:n:m` with whole
// numbers from 0, written without a sign and without zeros in front. Patterns may have `*` and `?`.
// Returns nothing for other changes, such as `:+t`, `+t` and `:?t`; for patterns and texts with
// quotation marks, brackets, a backslash or variables; and if `text` or `change` has a byte that
// is not ASCII, since the locale decides what is one letter.
//
// A pattern is compared in time that grows with its length and the square of that of the text. The
// product is taken off `steps_left`; nothing is returned if it is above that, or above 2^22.
std::optional<std::string> ChangedText(absl::string_view text, absl::string_view change,
                                       int64_t* steps_left);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_EXPANSION_H_
