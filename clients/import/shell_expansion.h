// Expansions that change the text of a variable, as in `${NAME%.json}`, and texts in which some
// expansion stayed unknown. `ShellVariables` (shell_variables.h) makes both.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_EXPANSION_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_EXPANSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

// Splits a value at blanks, but not within an expansion that is not known, such as
// `${((A + 1))}`. One that does not end is split as all else is.
std::vector<absl::string_view> PartsAtBlanks(absl::string_view text);

// Returns whether a word is the output of one command, `${(cat args.txt)}`, and nothing else. Sums,
// `${((A + 1))}`, are none.
bool IsOutputOfCommand(absl::string_view word);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_EXPANSION_H_
