// Says by gRPC's health protocol that the agent runs.

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_HEALTH_SERVER_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_HEALTH_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace parplan {

// SERVING for the empty name while it lives.
class HealthServer {
 public:
  // `address`: HOST:PORT, port 0 for a free one, or unix:PATH; plain text. UNAVAILABLE when it
  // cannot be had.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& address);
  ~HealthServer();

  int port() const;

 private:
  struct Server;
  explicit HealthServer(std::unique_ptr<Server> server);

  const std::unique_ptr<Server> server_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_HEALTH_SERVER_H_
