#include "base/service/shell/event_log.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace parplan {

void LogEvent(const char* level, const char* event,
              const std::vector<std::pair<std::string, std::string>>& fields) {
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  line["level"] = level;
  line["event"] = event;
  for (const auto& [key, value] : fields) line[key] = value;
  // One call for the whole line, so that lines are never mixed.
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace parplan
