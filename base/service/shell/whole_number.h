// Whole numbers of options: CLI11 2.1 takes the nearest number of 64 bits for one beyond them, and
// for a number without a sign also `-1`, as the largest.

#ifndef PARPLAN_BASE_SERVICE_SHELL_WHOLE_NUMBER_H_
#define PARPLAN_BASE_SERVICE_SHELL_WHOLE_NUMBER_H_

#include <string>

namespace parplan::shell {

// Checks of CLI11: what is wrong with the text of an option, as the end of a sentence; empty for a
// number from -2^63 to 2^63 - 1, or from 0 to 2^64 - 1, and for what is no whole number, of which
// CLI11 itself has an error.
std::string CheckSigned(const std::string& text);
std::string CheckUnsigned(const std::string& text);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_WHOLE_NUMBER_H_
