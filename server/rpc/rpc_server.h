// The gRPC server: the four services over one core, health and reflection.

#ifndef PARPLAN_SERVER_RPC_RPC_SERVER_H_
#define PARPLAN_SERVER_RPC_RPC_SERVER_H_

#include <grpcpp/server.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/service/health/health_server.h"
#include "server/core/server_core.h"
#include "server/rpc/blocking_pool.h"
#include "server/rpc/call.h"
#include "server/rpc/server_credentials.h"
#include "server/rpc/services.h"

namespace parplan {

struct RpcServerOptions {
  // As `CheckListenAddress`; port 0 takes a free one.
  std::string listen_address = "127.0.0.1:0";
  TlsFiles tls;
  // Lets a server without TLS listen where other machines can reach it.
  bool allow_insecure = false;
  // Where health is told besides, in plain text and without any certificate; nothing else can
  // be asked there. Empty: nowhere.
  std::string health_listen_address;
  // For calls that come without a deadline.
  absl::Duration default_deadline = absl::Minutes(10);
  CallLogger logger;
};

// INVALID_ARGUMENT (SPEC_INVALID) for options that cannot hold, FAILED_PRECONDITION for an
// address that needs TLS. Looks into no file.
absl::Status CheckOptions(const RpcServerOptions& options);

// Serves while it lives. Health is told for every service by its full name, and
// for the whole server by the empty name.
class RpcServer {
 public:
  // `core` outlives the server. The errors of `CheckOptions` and of
  // `MakeServerCredentials`; UNAVAILABLE when the address cannot be had.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(ServerCore& core,
                                                          const RpcServerOptions& options);

  // As `Drain(0, 0)`.
  ~RpcServer();

  // The port it listens on; for a Unix socket, 1.
  int port() const { return port_; }
  // The port of `health_listen_address`; 0 where there is none.
  int health_port() const { return health_ == nullptr ? 0 : health_->port(); }

  // Says NOT_SERVING (on the health port until the end), refuses new searches, lets clients leave
  // for `pause`, then takes no more calls and gives those in progress `grace`: searches end with
  // their best plan a little before it is over, what is left then is cancelled.
  // Once.
  void Drain(absl::Duration pause, absl::Duration grace);

 private:
  RpcServer(ServerCore& core, const RpcServerOptions& options);

  // Closes the connections once no call was in progress for a moment, unless
  // `done` comes before. Otherwise streams that watch health, and clients that
  // look at their connection every 5 s only, would hold up the end.
  void CloseWhenQuiet(const std::atomic<bool>& done);

  ServerCore& core_;
  std::atomic<int> call_count_ = 0;
  BlockingPool pool_;
  const RpcContext rpc_;
  ProfileService profiles_;
  PlanService plans_;
  ExecutionService executions_;
  CalibrationService calibrations_;
  AgentService agents_;
  int port_ = 0;
  std::unique_ptr<HealthServer> health_;
  std::unique_ptr<grpc::Server> server_;  // Null once drained.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_RPC_SERVER_H_
