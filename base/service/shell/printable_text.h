// Texts of files and servers on a terminal. A name in a plan may hold the bytes by which a terminal
// moves its cursor, clears its screen or sets its title; printed as they are, they could hide or
// forge lines of an answer.

#ifndef PARPLAN_BASE_SERVICE_SHELL_PRINTABLE_TEXT_H_
#define PARPLAN_BASE_SERVICE_SHELL_PRINTABLE_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace parplan::shell {

// Returns the text with every control character (U+0000 to U+001F and U+007F to U+009F) but
// newlines and tabs as `\u001b`. JSON of our own writers stays the same: outside of strings it has
// no other control characters, and within them this is how it writes them. Bytes that are no UTF-8
// stay as they are.
std::string PrintableText(absl::string_view text);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_PRINTABLE_TEXT_H_
