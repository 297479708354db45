// The sidecar's log: one line of JSON an event, on standard error.

#ifndef PARPLAN_CLIENTS_SIDECAR_SIDECAR_LOG_H_
#define PARPLAN_CLIENTS_SIDECAR_SIDECAR_LOG_H_

#include <string>
#include <utility>
#include <vector>

namespace parplan::sidecar {

// `level` is `info`, `warning` or `error`. Safe to call from any thread.
void LogEvent(const char* level, const char* event,
              const std::vector<std::pair<std::string, std::string>>& fields = {});

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_SIDECAR_SIDECAR_LOG_H_
