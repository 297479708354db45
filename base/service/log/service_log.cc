#include "base/service/log/service_log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace parplan {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Now() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone());
}

const char* LevelName(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::critical:
    case spdlog::level::err:
      return "error";
    case spdlog::level::warn:
      return "warning";
    default:
      return "info";
  }
}

}  // namespace

spdlog::level::level_enum LogLevelOf(const std::string& level) {
  return spdlog::level::from_str(level);
}

ServiceLog::ServiceLog(const std::string& level, const std::string& format)
    : as_json_(format == "json"),
      logger_(std::make_shared<spdlog::logger>("parplan",
                                               std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_formatter(std::make_unique<spdlog::pattern_formatter>("%v"));
  logger_->set_level(LogLevelOf(level));
}

void ServiceLog::SetLevel(const std::string& level) { logger_->set_level(LogLevelOf(level)); }

void ServiceLog::Info(const char* event, const Json& fields) const {
  Write(spdlog::level::info, event, fields);
}

void ServiceLog::Warn(const char* event, const Json& fields) const {
  Write(spdlog::level::warn, event, fields);
}

void ServiceLog::Error(const char* event, const Json& fields) const {
  Write(spdlog::level::err, event, fields);
}

void ServiceLog::Write(spdlog::level::level_enum level, const char* event,
                       const Json& fields) const {
  if (!Writes(level)) return;
  std::string line;
  if (as_json_) {
    Json json = {{"time", Now()}, {"level", LevelName(level)}, {"event", event}};
    json.update(fields);
    line = Dump(json);
  } else {
    line = Now() + " " + LevelName(level) + " " + event;
    for (const auto& [key, value] : fields.items()) line += " " + key + "=" + Dump(value);
  }
  logger_->log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace parplan
