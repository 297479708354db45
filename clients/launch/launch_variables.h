// Environment variables of a job and their two forms as text. `LaunchPlan` and `ExportVariables`
// make the variables. The tools for Slurm write lines without quotes, which their plugin puts into
// the environment of tasks; the sidecar writes `export` lines, which the job's shell reads.

#ifndef PARPLAN_CLIENTS_LAUNCH_LAUNCH_VARIABLES_H_
#define PARPLAN_CLIENTS_LAUNCH_LAUNCH_VARIABLES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace parplan {

// Names and values in the order of output. REQUIRES, unchecked: each name occurs once and is one
// that shells accept.
using LaunchVariables = std::vector<std::pair<std::string, std::string>>;

// Returns a line `NAME=VALUE` per variable, without quotes, for a program that splits each line at
// its first `=`. INVALID_ARGUMENT (SPEC_INVALID) naming the first variable whose value has a line
// feed or a zero byte.
absl::StatusOr<std::string> VariableLines(const LaunchVariables& variables);

// Returns a line `export NAME='VALUE'` per variable, quoted for POSIX shells. Returns the errors of
// `VariableLines`, for a value with a line feed too.
absl::StatusOr<std::string> ShellExports(const LaunchVariables& variables);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_LAUNCH_LAUNCH_VARIABLES_H_
