// The log of a long-running program: one line of JSON per event, on standard error.

#ifndef PARPLAN_BASE_SERVICE_SHELL_EVENT_LOG_H_
#define PARPLAN_BASE_SERVICE_SHELL_EVENT_LOG_H_

#include <string>
#include <utility>
#include <vector>

namespace parplan {

// Writes `time` (UTC, milliseconds), `level`, `event`, then `fields` in their order. Bytes that are
// not UTF-8 are replaced. `level` is `info`, `warning` or `error`. Safe to call from any thread:
// lines are never mixed. A line that cannot be written is lost.
void LogEvent(const char* level, const char* event,
              const std::vector<std::pair<std::string, std::string>>& fields = {});

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_SHELL_EVENT_LOG_H_
