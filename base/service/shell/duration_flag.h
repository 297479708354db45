// A flag that takes a duration, such as 30s, 5m or 24h. The server, the agent and the sidecar have
// such flags.

#ifndef PARPLAN_BASE_SERVICE_SHELL_DURATION_FLAG_H_
#define PARPLAN_BASE_SERVICE_SHELL_DURATION_FLAG_H_

#include "absl/time/time.h"
#include "base/service/shell/command_line.h"

namespace parplan {

// Adds the flag `name`, such as `--drain-time`. A value that is not a duration above 0
// (absl::ParseDuration, so `inf` is one) is refused while the command line is parsed. `target` must
// live until then and stays as it is if the flag is not given. The help does not show the default:
// end `help` with it, as in `[20s]`.
void AddDurationFlag(shell::Command command, const char* name, absl::Duration& target,
                     const char* help);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_SHELL_DURATION_FLAG_H_
