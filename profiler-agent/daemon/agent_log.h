// The agent's log: one line of JSON an event, on standard error.

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_AGENT_LOG_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_AGENT_LOG_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// `level` is `info`, `warning` or `error`. Safe to call from any thread.
void LogEvent(const char* level, const char* event,
              const std::vector<std::pair<std::string, std::string>>& fields = {});

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_AGENT_LOG_H_
