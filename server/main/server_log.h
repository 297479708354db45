// The server's log: that of every program that stays, and a line for each call. main.cc makes one
// and gives `LogCall` to the transport.

#ifndef PARPLAN_SERVER_MAIN_SERVER_LOG_H_
#define PARPLAN_SERVER_MAIN_SERVER_LOG_H_

#include "base/service/log/service_log.h"
#include "server/rpc/call.h"

namespace parplan {

class ServerLog : public ServiceLog {
 public:
  using ServiceLog::ServiceLog;

  // Writes a line for a call: level `info` if it was answered or refused with a reason that the
  // caller can act on, `warning` if the store was unavailable, `error` for a fault of the server.
  void LogCall(const CallRecord& record) const;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_SERVER_LOG_H_
