// The server's log: one line for each event on standard error, as JSON for machines or as text for
// people.

#ifndef PARPLAN_SERVER_MAIN_SERVER_LOG_H_
#define PARPLAN_SERVER_MAIN_SERVER_LOG_H_

#include <spdlog/logger.h>

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "server/rpc/call.h"

namespace parplan {

// Safe to use from any thread.
class ServerLog {
 public:
  // `level` is `trace`, `debug`, `info`, `warning`, `error` or `off` (as is any other word),
  // `format` is `json` or, with any other word, text.
  ServerLog(const std::string& level, const std::string& format);

  // Sets the level from now on.
  void SetLevel(const std::string& level);

  // Write one line. `fields` is an object of texts and numbers without the members `time`, `level`
  // and `event`.
  void Info(const char* event, const nlohmann::ordered_json& fields) const;
  void Warn(const char* event, const nlohmann::ordered_json& fields) const;
  void Error(const char* event, const nlohmann::ordered_json& fields) const;

  // Writes a line for a call: level `info` if it was answered or refused with a reason that the
  // caller can act on, `warning` if the store was unavailable, `error` for a fault of the server.
  void LogCall(const CallRecord& record) const;

 private:
  void Write(spdlog::level::level_enum level, const char* event,
             const nlohmann::ordered_json& fields) const;

  const bool as_json_;
  const std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_SERVER_LOG_H_
