#include "base/service/log/event_log.h"

#include "base/service/log/service_log.h"

namespace parplan {
namespace {

// Threads may log until the process ends.
ServiceLog& ProcessLog() {
  static ServiceLog& log = *new ServiceLog("info", "json");
  return log;
}

}  // namespace

void LogEvent(const char* level, const char* event,
              const std::vector<std::pair<std::string, std::string>>& fields) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [key, value] : fields) object[key] = value;
  ProcessLog().Write(LogLevelOf(level), event, object);
}

void SetEventLogLevel(const std::string& level) { ProcessLog().SetLevel(level); }

}  // namespace parplan
