// What a flag's value must be, told in one short sentence.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_FLAG_CHECKS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_FLAG_CHECKS_H_

#include <CLI/CLI.hpp>

namespace parplan::planctl {

// For `CLI::Option::check`. CLI11's own let pass what is no number, and its texts are long.

// A finite number above 0.
CLI::Validator Positive();
// A finite number from 0 on.
CLI::Validator NotNegative();
// A number from 0 to below 1.
CLI::Validator Share();
// A number from 1e-6 to 0.5.
CLI::Validator Risk();
// Any text but the empty one, which would read as if the flag were not there.
CLI::Validator NotEmpty();

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_FLAG_CHECKS_H_
