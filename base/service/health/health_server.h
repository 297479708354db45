// gRPC's health protocol on a port of its own, for probes that show no certificate.

#ifndef PARPLAN_BASE_SERVICE_HEALTH_HEALTH_SERVER_H_
#define PARPLAN_BASE_SERVICE_HEALTH_HEALTH_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace parplan {

// Answers `grpc.health.v1.Health` while it lives and refuses every other method: no API and no
// reflection can be reached here, so plain text gives nothing away.
class HealthServer {
 public:
  // SERVING for the empty name and for each of `services`, full names of gRPC services.
  // `address`: HOST:PORT, port 0 for a free one, or unix:PATH. UNAVAILABLE when it cannot be
  // had.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(
      const std::string& address, const std::vector<std::string>& services = {});
  ~HealthServer();

  // What all names say from now on. From any thread.
  void SetServing(bool is_serving);

  int port() const;

 private:
  struct Server;
  explicit HealthServer(std::unique_ptr<Server> server);

  const std::unique_ptr<Server> server_;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_HEALTH_HEALTH_SERVER_H_
