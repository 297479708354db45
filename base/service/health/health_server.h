// gRPC's health protocol on a port of its own, for probes that have no certificate. The server, the
// agent and the sidecar start one.

#ifndef PARPLAN_BASE_SERVICE_HEALTH_HEALTH_SERVER_H_
#define PARPLAN_BASE_SERVICE_HEALTH_HEALTH_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace parplan {

// A server that answers `grpc.health.v1.Health` while it lives and refuses every other method with
// UNIMPLEMENTED. A name that `Start` was not given is NOT_FOUND for `Check`. No API and no
// reflection can be reached here, so plain text reveals nothing.
// A `ConnectionGate` accepts: 64 connections at most, half of them of one host or user of a Unix
// socket, and a new one takes the place of the oldest. One that makes more than 100 calls at once,
// and 200 a second in the long run, is closed. Compressed messages and those above 4 KiB are
// refused. The destructor gives calls in progress 200 ms, then cancels them.
class HealthServer {
 public:
  // Starts with SERVING for the empty name and for each of `services`, full names of gRPC services.
  // `address` is HOST:PORT, with port 0 for a free one, or unix:PATH. UNAVAILABLE
  // with no `Reason` if the address cannot be read or bound. Turns on gRPC's health service for
  // each server that this process builds later, unless its builder has
  // `HealthCheckServiceServerBuilderOption(nullptr)`.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(
      const std::string& address, const std::vector<std::string>& services = {});
  ~HealthServer();

  // Sets the state of all names. Safe to call from any thread.
  void SetServing(bool is_serving);

  // Sets the state of one of the services given to `Start`, or of the empty name. Safe to call from
  // any thread.
  void SetServing(const std::string& service, bool is_serving);

  // Port that the server got; 1 for a Unix socket, as in gRPC.
  int port() const;

 private:
  struct Server;
  explicit HealthServer(std::unique_ptr<Server> server);

  const std::unique_ptr<Server> server_;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_HEALTH_HEALTH_SERVER_H_
