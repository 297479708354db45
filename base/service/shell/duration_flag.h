// A flag that takes a duration, such as 30s, 5m or 24h.

#ifndef PARPLAN_BASE_SERVICE_SHELL_DURATION_FLAG_H_
#define PARPLAN_BASE_SERVICE_SHELL_DURATION_FLAG_H_

#include <CLI/CLI.hpp>

#include "absl/time/time.h"

namespace parplan {

// Adds a flag such as `--drain-time`. While the command line is parsed, a text that is no duration
// above 0 is a CLI::ValidationError; `target` must live until then, and keeps its value if the flag
// is not given.
void AddDurationFlag(CLI::App& app, const char* name, absl::Duration& target, const char* help);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_SHELL_DURATION_FLAG_H_
