// A flag that takes a duration, such as 30s, 5m or 24h.

#ifndef PARPLAN_BASE_SERVICE_SHELL_DURATION_FLAG_H_
#define PARPLAN_BASE_SERVICE_SHELL_DURATION_FLAG_H_

#include <CLI/CLI.hpp>

#include "absl/time/time.h"

namespace parplan {

// `name` as in `--drain-time`. Refuses what is no duration or not above 0, with
// CLI::ValidationError while the command line is parsed; `target` lives until then and stays where
// the flag is not given.
void AddDurationFlag(CLI::App& app, const char* name, absl::Duration& target, const char* help);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_SHELL_DURATION_FLAG_H_
