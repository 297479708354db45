// Serves metrics over plain HTTP at `/metrics`, on a port of its own. The server, the agent and the
// sidecar start one.

#ifndef PARPLAN_BASE_SERVICE_METRICS_EXPOSER_H_
#define PARPLAN_BASE_SERVICE_METRICS_EXPOSER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace prometheus {
class Collectable;
}

namespace parplan {

// An HTTP server of metrics, on threads of its own. It serves until it is destroyed.
class MetricsExposer {
 public:
  // `address` is `host:port`; port 0 takes a free one. Sources that are null are left out. Returns
  // INVALID_ARGUMENT (SPEC_INVALID) if host or port is absent, UNAVAILABLE with no `Reason` if the
  // address cannot be bound or its port is no number. The exposer holds the sources, which must be
  // safe to collect from its threads.
  static absl::StatusOr<std::unique_ptr<MetricsExposer>> Start(
      const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> sources);

  ~MetricsExposer();

  // Returns the port that it listens on.
  int port() const;

 private:
  struct Server;
  explicit MetricsExposer(std::unique_ptr<Server> server);

  const std::unique_ptr<Server> server_;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_METRICS_EXPOSER_H_
