// The log of a long-running program other than the server: one line of JSON per event, on standard
// error. The agent, the sidecar and `parplan-exec` log by it.

#ifndef PARPLAN_BASE_SERVICE_LOG_EVENT_LOG_H_
#define PARPLAN_BASE_SERVICE_LOG_EVENT_LOG_H_

#include <string>
#include <utility>
#include <vector>

namespace parplan {

// Writes `time` (UTC, microseconds), `level`, `event`, then `fields` in their order, whose names
// are different and none of those three (service_log.h). `level` is `info`, `warning` or `error`.
// Safe to call from any thread: lines are never mixed. A line that cannot be written is lost; the
// call waits while standard error takes nothing, as a full pipe does (service_log.h).
void LogEvent(const char* level, const char* event,
              const std::vector<std::pair<std::string, std::string>>& fields = {});

// Sets the least level that `LogEvent` writes from now on; `info` until then. Takes the words of
// `LogLevelOf` (service_log.h); any other word turns the log off.
void SetEventLogLevel(const std::string& level);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LOG_EVENT_LOG_H_
