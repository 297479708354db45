// Environment variables as text.

#ifndef PARPLAN_CLIENTS_LAUNCH_LAUNCH_VARIABLES_H_
#define PARPLAN_CLIENTS_LAUNCH_LAUNCH_VARIABLES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace parplan {

// Names and values, in the order in which they are told; no name twice.
using LaunchVariables = std::vector<std::pair<std::string, std::string>>;

// A line `NAME=VALUE` each, values as they are: what a program reads that sets them itself.
// INVALID_ARGUMENT (SPEC_INVALID) naming a variable whose value has a line feed or a zero byte.
absl::StatusOr<std::string> VariableLines(const LaunchVariables& variables);

// A line `export NAME='VALUE'` each, quoted for POSIX shells. The same errors.
absl::StatusOr<std::string> ShellExports(const LaunchVariables& variables);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_LAUNCH_LAUNCH_VARIABLES_H_
