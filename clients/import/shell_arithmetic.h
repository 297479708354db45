// Computes what stands in `$((...))`. `ShellVariables` (shell_variables.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_SHELL_ARITHMETIC_H_
#define PARPLAN_CLIENTS_IMPORT_SHELL_ARITHMETIC_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace parplan {

// Returns whether a text is a decimal number: digits, perhaps behind a `-`, without a zero in
// front, which a shell takes as octal in some places.
bool IsWholeNumber(absl::string_view text);

// Computes `a * (b + 2)`, `a >= 4`, `(a > 1) ? b : 0` and the like over whole numbers and the
// variables that `lookup` knows. Returns nothing for other signs, for a variable that is not known,
// for a number beyond 2^31 of either sign, and for more than 16 parentheses or choices inside one
// another.
std::optional<int64_t> ComputeShellArithmetic(
    absl::string_view text,
    const std::function<std::optional<int64_t>(const std::string& name)>& lookup);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHELL_ARITHMETIC_H_
