// The gRPC server: the five services over one core, health and reflection. server/main/main.cc
// starts one.

#ifndef PARPLAN_SERVER_RPC_RPC_SERVER_H_
#define PARPLAN_SERVER_RPC_RPC_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/service/health/health_server.h"
#include "base/service/listen/connection_gate.h"
#include "server/access/authorizer.h"
#include "server/core/server_core.h"
#include "server/rpc/blocking_pool.h"
#include "server/rpc/call.h"
#include "server/rpc/credential_watch.h"
#include "server/rpc/reflection_service.h"
#include "server/rpc/request_memory.h"
#include "server/rpc/server_credentials.h"
#include "server/rpc/services.h"
#include "server/rpc/tls_copies.h"
#include "server/rpc/unread_answers.h"

namespace parplan {

// The addresses of a server, and how it serves.
struct RpcServerOptions {
  // An address that passes `CheckListenAddress`; port 0 takes a free one.
  std::string listen_address = "127.0.0.1:0";
  TlsFiles tls;  // Empty for plain text.
  // Lets a server without TLS listen where other machines can reach it.
  bool allow_insecure = false;
  // A second address of the same form, which serves the health protocol alone, without TLS, even
  // where other machines reach it. Empty for none.
  std::string health_listen_address;
  // Deadline of calls that have none, except streams of agents, which need none. Above 0.
  absl::Duration default_deadline = absl::Minutes(10);
  // How long the client of a stream may send nothing before its first message, which clients send
  // with the call. Half of the 10 s after which a silent stream is to be gone: 8,000 that begin at
  // once end at once, which took 1.6 s on two cores at a load of 14. This and the next are finite;
  // not checked.
  absl::Duration max_first_silence = absl::Seconds(5);
  // How long it may send nothing while the server waits for a later message; agents for
  // `Limits::longest_agent_silence`.
  absl::Duration max_stream_silence = absl::Seconds(10);
  // How long a client may take to read an answer, whatever the deadline of its call. A message of
  // 64 MiB takes 54 s at 10 Mbit/s. Finite; not checked.
  absl::Duration max_unread_time = absl::Minutes(1);
  // Bytes of all answers that wait for their clients, as many as gRPC may have for requests. Beyond
  // them the oldest calls of the `CallContext::holder` that has most of them are broken off.
  int64_t max_unread_bytes = int64_t{256} << 20;
  // Bytes that decoded requests may take together, each with `kCallBytes` for its call, from before
  // they are decoded until their calls have ended; those of one `CallContext::holder` half of it.
  // gRPC may have as many for messages on their way. A question about 1,000 different layers
  // takes about 2 MB. Bounds the calls with one request too: 12,865 in progress, 6,432 of one
  // holder.
  int64_t max_request_memory = int64_t{256} << 20;
  // Knows what callers may do. Null: everybody may do everything.
  std::shared_ptr<Authorizer> authorizer;
  // Limits of connections; `LimitsForDescriptors` for a program of its own.
  ConnectionLimits connections;
  // Called for every call that ended; empty for no log.
  CallLogger logger;
};

// Checks options without reading any file. INVALID_ARGUMENT (SPEC_INVALID) naming `listen`,
// `health_listen` or `default_deadline` for an address of another form or a deadline that is not
// above 0; FAILED_PRECONDITION (SPEC_INVALID) naming `listen` for an address that other machines
// can reach without TLS and without `allow_insecure`.
absl::Status CheckOptions(const RpcServerOptions& options);

// Serves as long as it lives, on threads of gRPC and of its pools; used by one thread, except where
// a method says otherwise. The health protocol knows every service by its full name, and the whole
// server by the empty name.
class RpcServer {
 public:
  // Starts serving. `core` outlives the server, which drains it at its end. The errors of
  // `CheckOptions`; INVALID_ARGUMENT (SPEC_INVALID) for a TLS file that cannot be used; UNAVAILABLE
  // with no `Reason` if there is no memory for copies of TLS files, an address cannot be bound, or
  // gRPC cannot start. Throws std::system_error if the system has no thread for one of the pools.
  // The health port comes last; if it cannot be bound, `core` has been drained
  // and serves no other server. Health begins with SERVING under all its names.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(ServerCore& core,
                                                          const RpcServerOptions& options);

  // Calls `Drain(0, 0)`, which does nothing after an earlier `Drain`.
  ~RpcServer();

  // The bound port; 1 for a Unix socket.
  int port() const { return gate_.port(); }
  // The bound port of `health_listen_address`; 0 if there is none.
  int health_port() const { return health_ == nullptr ? 0 : health_->port(); }

  // Reports to the health protocol whether new plans can be signed, under the name
  // `parplan.v1.PlanService/signing` and no other: stored plans can be read all the same, so
  // clients and probes go on with this server. May be called from any thread; does nothing once
  // `Drain` has begun.
  void SetSigning(bool can_sign);

  // Reports to the health protocol whether changes can be stored, under the name
  // `parplan.v1/writes` and no other: what is stored can be read all the same. May be called from
  // any thread; does nothing once `Drain` has begun.
  void SetWriting(bool can_write);

  // Reports to the health protocol whether the server answers, under the empty name and those of
  // the services. May be called from any thread; does nothing once `Drain` has begun.
  void SetAnswering(bool answers);

  // Connects to itself, at the first address it listens on, and waits for at most `timeout`. OK if
  // it answers, or closes the connection, and if the process has no descriptor left to try;
  // UNAVAILABLE with no `Reason` else. May be called from any thread, but not after `Drain` has
  // begun, which is not checked.
  absl::Status Probe(absl::Duration timeout) const;

  // Reads the files of TLS again, if there are any; OK if there are none. The errors are those of
  // `TlsCopies::Refresh`: files that cannot be used leave the last good ones in use. gRPC takes new
  // ones within 5 s, for new connections alone. Used by one thread, which may be another than that
  // of `Drain`.
  absl::Status RefreshTls();

  // Reports NOT_SERVING (on the health port until the end), refuses new searches, gives clients
  // `pause` to go elsewhere, then refuses calls and gives those in progress `grace`: searches end
  // with their best plan 1 s before `grace` is over, at once if it is shorter, and the calls left
  // after it are cancelled. Blocks for the whole of `pause`, and then until the calls have ended,
  // which may be before `grace` is over. To be called once; a second call after it does nothing.
  void Drain(absl::Duration pause, absl::Duration grace);

  // Accepts the connections of the main listener.
  const ConnectionGate& gate() const { return gate_; }

 private:
  RpcServer(ServerCore& core, const RpcServerOptions& options, ListeningSockets sockets);

  // Reports the state of one name to the health protocol.
  void SetServing(const std::string& name, bool is_serving);

  // Closes the connections once no call was in progress for a moment, unless `done` is set before.
  // Otherwise streams that watch health, and clients that look at their connection only every 5 s,
  // would delay the end.
  void CloseWhenQuiet(const std::atomic<bool>& done);

  ServerCore& core_;
  std::atomic<int> call_count_ = 0;
  ConnectionGate gate_;
  AlarmThread alarms_;
  UnreadAnswers unread_;
  RequestMemory requests_;
  BlockingPool pool_;
  BlockingPool question_pool_;
  std::unique_ptr<TlsCopies> tls_;  // Null without TLS.
  const std::shared_ptr<Authorizer> authorizer_;
  CredentialWatch credentials_;
  const RpcContext rpc_;
  ProfileService profiles_;
  PlanService plans_;
  ExecutionService executions_;
  CalibrationService calibrations_;
  AgentService agents_;
  ReflectionService reflection_;
  std::unique_ptr<HealthServer> health_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;  // Null once drained.

  std::mutex serving_mutex_;  // Held while the state is reported to the health protocol.
  bool is_draining_ = false;  // Guarded by serving_mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_RPC_SERVER_H_
