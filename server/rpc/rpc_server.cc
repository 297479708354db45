#include "server/rpc/rpc_server.h"

#include <grpc/grpc.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/service/listen/hand_over.h"
#include "base/service/listen/listen_address.h"
#include "base/service/listen/listening_sockets.h"
#include "base/service/listen/transport_settings.h"
#include "base/status_macros.h"
#include "base/system/start_thread.h"
#include "server/rpc/self_probe.h"
#include "server/rpc/undecodable_calls.h"

namespace parplan {
namespace {

// Threads for uploads, reports and reads of the store. The store has one writer at a time, so more
// threads would mostly wait for it; fewer would let a slow upload delay reads. Not measured.
constexpr int kBlockingThreadCount = 4;

// Threads for questions that are answered from memory or wait for the store. As many callers of
// plans with known answers share one flush of the audit log. Not measured.
constexpr int kQuestionThreadCount = 8;

constexpr int kMaxConcurrentStreams = 1024;

// Half of the memory of a small pod.
constexpr size_t kMaxTransportBytes = size_t{256} << 20;

// Connections end after an hour, once no call uses them, so that clients spread over new replicas.
constexpr int kMaxConnectionAgeMs = 3600 * 1000;

// A server counts as quiet after so long without a call in progress, and looks so often.
constexpr absl::Duration kQuietTime = absl::Milliseconds(200);
constexpr absl::Duration kQuietLook = absl::Milliseconds(10);

// Time between the end of searches and the end of their calls, to sign, store and send plans.
constexpr absl::Duration kAnswerTime = absl::Seconds(1);

TransportLimits TransportOf(const Limits& limits) {
  return {
      .quota_name = "parplan-server",
      .max_message_bytes = static_cast<int>(std::min<int64_t>(limits.max_request_bytes, INT32_MAX)),
      .max_transport_bytes = kMaxTransportBytes,
      .max_concurrent_streams = kMaxConcurrentStreams};
}

// The name under which health says whether changes can be stored.
constexpr char kWrites[] = "parplan.v1/writes";

// Returns the name under which health says whether plans can be signed. No client chooses its
// server by it: other servers with the same keys cannot sign either, and stored plans are given
// out.
std::string SigningService() {
  return absl::StrCat(v1::PlanService::service_full_name(), "/signing");
}

std::vector<std::string> ServiceNames() {
  return {v1::ProfileService::service_full_name(), v1::PlanService::service_full_name(),
          v1::ExecutionService::service_full_name(), v1::CalibrationService::service_full_name(),
          v1::AgentService::service_full_name()};
}

}  // namespace

absl::Status CheckOptions(const RpcServerOptions& options) {
  PARPLAN_RETURN_IF_ERROR(CheckListenAddress(options.listen_address));
  if (!options.health_listen_address.empty()) {
    PARPLAN_RETURN_IF_ERROR(CheckListenAddress(options.health_listen_address, "health_listen"));
  }
  if (options.default_deadline <= absl::ZeroDuration()) {
    return FieldError(Reason::kSpecInvalid, "default_deadline", "must be above 0");
  }
  if (options.tls.empty() && !options.allow_insecure && !IsLocalAddress(options.listen_address)) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, Reason::kSpecInvalid,
        absl::StrCat("other machines can reach ", options.listen_address,
                     ", and without TLS anybody could read and change plans there; give a "
                     "certificate and its key, listen on 127.0.0.1, or allow it with --insecure"),
        {{"field", "listen"}, {"rule", "an address of other machines needs TLS"}});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(ServerCore& core,
                                                            const RpcServerOptions& options) {
  PARPLAN_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<TlsCopies> tls;
  if (!options.tls.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(tls, TlsCopies::Make(options.tls, absl::Now()));
  }
  PARPLAN_ASSIGN_OR_RETURN(ListeningSockets sockets, Listen(options.listen_address));
  // Before anything of gRPC, which waits for ever at its end if it could not start its own threads:
  // without threads for those of this object an exception ends the function here.
  std::unique_ptr<RpcServer> server(new RpcServer(core, options, std::move(sockets)));
  const std::shared_ptr<grpc::ServerCredentials> credentials =
      MakeServerCredentials(tls == nullptr ? TlsFiles() : tls->copies());
  // A setting of the whole process that BuildAndStart reads.
  grpc::EnableDefaultHealthCheckService(true);

  server->tls_ = std::move(tls);
  grpc::ServerBuilder builder;
  server->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  builder.RegisterService(&server->profiles_);
  builder.RegisterService(&server->plans_);
  builder.RegisterService(&server->executions_);
  builder.RegisterService(&server->calibrations_);
  builder.RegisterService(&server->agents_);
  builder.RegisterService(&server->reflection_);
  ConfigureTransport(TransportOf(core.limits()), builder);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kMaxConnectionAgeMs);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<UndecodableCalls>(server->rpc_));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::UnavailableError("gRPC cannot start a server; its log says why");
  }
  std::vector<std::string> services = ServiceNames();
  services.push_back(SigningService());
  services.emplace_back(kWrites);
  grpc::HealthCheckServiceInterface* const health = server->server_->GetHealthCheckService();
  for (const std::string& service : services) health->SetServingStatus(service, true);
  if (!options.health_listen_address.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(server->health_,
                             HealthServer::Start(options.health_listen_address, services));
  }
  server->gate_.Start(HandOverTo(*server->server_, *server->acceptor_));
  return server;
}

RpcServer::RpcServer(ServerCore& core, const RpcServerOptions& options, ListeningSockets sockets)
    : core_(core),
      gate_(std::move(sockets), options.connections,
            options.tls.empty() ? LocalNames::kByDescriptor : LocalNames::kNone),
      unread_(alarms_, options.max_unread_time, options.max_unread_bytes),
      requests_(options.max_request_memory),
      pool_(kBlockingThreadCount),
      question_pool_(kQuestionThreadCount),
      authorizer_(options.authorizer == nullptr ? std::make_shared<Authorizer>(AccessRules())
                                                : options.authorizer),
      credentials_(*authorizer_, core.clock()),
      rpc_{core,
           pool_,
           question_pool_,
           options.logger,
           options.default_deadline,
           call_count_,
           gate_,
           *authorizer_,
           alarms_,
           credentials_,
           unread_,
           requests_,
           options.max_first_silence,
           options.max_stream_silence},
      profiles_(rpc_),
      plans_(rpc_),
      executions_(rpc_),
      calibrations_(rpc_),
      agents_(rpc_),
      reflection_(rpc_, ServiceNames()) {}

RpcServer::~RpcServer() { Drain(absl::ZeroDuration(), absl::ZeroDuration()); }

void RpcServer::Drain(absl::Duration pause, absl::Duration grace) {
  if (server_ == nullptr) return;
  core_.StopTaking();
  {
    const std::lock_guard<std::mutex> lock(serving_mutex_);
    is_draining_ = true;
    server_->GetHealthCheckService()->SetServingStatus(false);
    if (health_ != nullptr) health_->SetServing(false);
  }
  absl::SleepFor(pause);
  gate_.StopAccepting();
  std::thread searches = StartThread(
      [this, grace] { core_.Drain(std::max(grace - kAnswerTime, absl::ZeroDuration())); });
  // Without a thread that waits, searches end at once with their best plans, and connections stay
  // until the calls have ended or `grace` is over. The thread of the alarms waits for the searches
  // meanwhile, and later alarms with it, so that this thread can cancel their calls after `grace`.
  if (!searches.joinable()) {
    alarms_.Set(absl::ZeroDuration(), [this] { core_.Drain(absl::ZeroDuration()); });
  }
  std::atomic<bool> done = false;
  std::thread closer = StartThread([this, &done] { CloseWhenQuiet(done); });
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMicroseconds(grace));
  server_->Wait();
  done = true;
  if (closer.joinable()) closer.join();
  if (searches.joinable()) {
    searches.join();
  } else {
    core_.Drain(absl::ZeroDuration());  // Waits for the other one.
  }
  server_.reset();
  health_.reset();
}

void RpcServer::SetSigning(bool can_sign) { SetServing(SigningService(), can_sign); }

void RpcServer::SetWriting(bool can_write) { SetServing(kWrites, can_write); }

void RpcServer::SetAnswering(bool answers) {
  SetServing("", answers);
  for (const std::string& name : ServiceNames()) SetServing(name, answers);
}

absl::Status RpcServer::Probe(absl::Duration timeout) const {
  return ProbeListener(gate_.address(), tls_ != nullptr, timeout);
}

absl::Status RpcServer::RefreshTls() {
  return tls_ == nullptr ? absl::OkStatus() : tls_->Refresh(absl::Now());
}

void RpcServer::SetServing(const std::string& name, bool is_serving) {
  const std::lock_guard<std::mutex> lock(serving_mutex_);
  if (is_draining_) return;
  server_->GetHealthCheckService()->SetServingStatus(name, is_serving);
  if (health_ != nullptr) health_->SetServing(name, is_serving);
}

void RpcServer::CloseWhenQuiet(const std::atomic<bool>& done) {
  absl::Duration quiet;
  while (quiet < kQuietTime) {
    if (done) return;
    absl::SleepFor(kQuietLook);
    quiet = call_count_ == 0 ? quiet + kQuietLook : absl::ZeroDuration();
  }
  grpc_server_cancel_all_calls(server_->c_server());
}

}  // namespace parplan
