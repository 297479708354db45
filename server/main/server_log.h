// The server's log: that of every program that stays, and a line for each call. main.cc makes one
// and gives `LogCall` to the transport.

#ifndef PARPLAN_SERVER_MAIN_SERVER_LOG_H_
#define PARPLAN_SERVER_MAIN_SERVER_LOG_H_

#include "base/service/log/service_log.h"
#include "server/rpc/call.h"

namespace parplan {

// Made with the level and the format of the settings (`ServiceLog`). Safe to use from any thread.
class ServerLog : public ServiceLog {
 public:
  using ServiceLog::ServiceLog;

  // Writes a line for a call: level `error` for a fault of the server (INTERNAL, UNKNOWN and
  // DATA_LOSS), `warning` if the store was unavailable (STORE_UNAVAILABLE), `info` for all others.
  void LogCall(const CallRecord& record) const;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_SERVER_LOG_H_
