#include "server/main/server_log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "server/metrics/label.h"

namespace parplan {
namespace {

using Json = nlohmann::ordered_json;

// Text that is not UTF-8 is logged with replacement characters.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Now() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone());
}

const char* LevelName(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::err:
      return "error";
    case spdlog::level::warn:
      return "warning";
    default:
      return "info";
  }
}

bool IsOurFault(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

}  // namespace

ServerLog::ServerLog(const std::string& level, const std::string& format)
    : as_json_(format == "json"),
      logger_(std::make_shared<spdlog::logger>("parplan",
                                               std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_formatter(std::make_unique<spdlog::pattern_formatter>("%v"));
  logger_->set_level(spdlog::level::from_str(level));
}

void ServerLog::SetLevel(const std::string& level) {
  logger_->set_level(spdlog::level::from_str(level));
}

void ServerLog::Info(const char* event, const Json& fields) const {
  Write(spdlog::level::info, event, fields);
}

void ServerLog::Warn(const char* event, const Json& fields) const {
  Write(spdlog::level::warn, event, fields);
}

void ServerLog::Error(const char* event, const Json& fields) const {
  Write(spdlog::level::err, event, fields);
}

void ServerLog::LogCall(const CallRecord& record) const {
  const bool is_store_away =
      record.code == absl::StatusCode::kUnavailable && record.reason == Reason::kStoreUnavailable;
  const auto level = IsOurFault(record.code) ? spdlog::level::err
                     : is_store_away         ? spdlog::level::warn
                                             : spdlog::level::info;
  if (!logger_->should_log(level)) return;
  Json fields = {{"method", record.method},
                 {"code", StatusCodeLabel(record.code)},
                 {"duration_seconds", absl::ToDoubleSeconds(record.duration)},
                 {"request_id", record.request_id}};
  if (!record.trace_id.empty()) fields["trace_id"] = record.trace_id;
  fields["peer"] = record.peer;
  if (record.reason.has_value()) fields["reason"] = std::string(ReasonName(*record.reason));
  if (!record.message.empty()) fields["message"] = record.message;
  Write(level, "call", fields);
}

void ServerLog::Write(spdlog::level::level_enum level, const char* event,
                      const Json& fields) const {
  if (!logger_->should_log(level)) return;
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
