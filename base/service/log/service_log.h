// The log of a program that keeps running: one line for each event on standard error, as JSON for
// machines or as text for people. `ServerLog` (the server's) and `LogEvent` (event_log.h, of the
// other programs) write with it.

#ifndef PARPLAN_BASE_SERVICE_LOG_SERVICE_LOG_H_
#define PARPLAN_BASE_SERVICE_LOG_SERVICE_LOG_H_

#include <spdlog/logger.h>

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

namespace parplan {

// Returns the level named by `level`: `trace`, `debug`, `info`, `warning`, `error` or another word
// that spdlog has for a level. Any other word is off.
spdlog::level::level_enum LogLevelOf(const std::string& level);

// A log on standard error. Safe to use from any thread: lines are never mixed. A line that cannot
// be written is lost. While standard error takes nothing, as a full pipe does, the thread that
// writes waits without a limit, and so do the others that log.
class ServiceLog {
 public:
  // `level` is the least level that is written, a word of `LogLevelOf`; `off` or any other word
  // writes nothing. `format` is `json` or, with any other word, text.
  ServiceLog(const std::string& level, const std::string& format);

  // Sets the least level that is written from now on, by a word of `LogLevelOf`; any other word
  // turns the log off.
  void SetLevel(const std::string& level);

  // Returns whether events of this level are written now.
  bool Writes(spdlog::level::level_enum level) const { return logger_->should_log(level); }

  // Writes one line: `time` (UTC, microseconds), `level`, `event`, then the members of `fields`.
  // The line is written when this returns. Does nothing if `Writes(level)` is false. The level is
  // shown as `error` for `critical` and as `info` for a level below `warning`. Bytes that are not
  // UTF-8 are replaced. REQUIRES, unchecked: `fields` is an object (`{}` for none) whose members
  // are texts or numbers and have other names than `time`, `level` and `event`. If the format is
  // JSON, `fields` that are null or a list throw `nlohmann::json::type_error`, and a member with
  // one of those names replaces that part of the line.
  void Write(spdlog::level::level_enum level, const char* event,
             const nlohmann::ordered_json& fields) const;
  // Write as `Write` does, with the level of their name.
  void Info(const char* event, const nlohmann::ordered_json& fields) const;
  void Warn(const char* event, const nlohmann::ordered_json& fields) const;
  void Error(const char* event, const nlohmann::ordered_json& fields) const;

 private:
  const bool as_json_;
  const std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LOG_SERVICE_LOG_H_
