// Writes environment variables as text. The sidecar and the tools for Slurm write them into files.

#ifndef PARPLAN_CLIENTS_LAUNCH_LAUNCH_VARIABLES_H_
#define PARPLAN_CLIENTS_LAUNCH_LAUNCH_VARIABLES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace parplan {

// Names and values in the order of output; each name occurs once.
using LaunchVariables = std::vector<std::pair<std::string, std::string>>;

// Returns a line `NAME=VALUE` per variable, without quoting, for a program that sets them itself.
// INVALID_ARGUMENT (SPEC_INVALID) naming a variable whose value has a line feed or a zero byte.
absl::StatusOr<std::string> VariableLines(const LaunchVariables& variables);

// Returns a line `export NAME='VALUE'` per variable, quoted for POSIX shells. Returns the errors of
// `VariableLines`.
absl::StatusOr<std::string> ShellExports(const LaunchVariables& variables);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_LAUNCH_LAUNCH_VARIABLES_H_
