#include "base/service/health/health_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/server_interceptor.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/service/listen/call_counter.h"
#include "base/service/listen/connection_gate.h"
#include "base/service/listen/hand_over.h"
#include "base/service/listen/listen_address.h"
#include "base/service/listen/listening_sockets.h"
#include "base/service/listen/transport_settings.h"

namespace parplan {
namespace {

// A request names a service, so 4 KiB are ample. Each probe of a kubelet is a connection with one
// call, and a client that watches has a call for each name. Not measured.
constexpr TransportLimits kTransport = {.quota_name = "parplan-health",
                                        .max_message_bytes = 4096,
                                        .max_transport_bytes = size_t{16} << 20,
                                        .max_concurrent_streams = 16};
constexpr int kMaxConnections = 64;

// Calls on one connection: at once, and by second in the long run. 100,000 that their client reset
// took 1.7 GB of an agent for good. A kubelet makes one call a connection.
constexpr double kMaxCalls = 100;
constexpr double kMaxCallsPerSecond = 200;

ConnectionLimits Limits() {
  ConnectionLimits limits;
  limits.max_open_count = kMaxConnections;
  limits.max_silent_count = kMaxConnections;
  limits.max_cancelled_calls = kMaxCalls;
  limits.max_cancelled_calls_per_second = kMaxCallsPerSecond;
  return limits;
}

}  // namespace

struct HealthServer::Server {
  explicit Server(ListeningSockets sockets) : gate(std::move(sockets), Limits()) {}

  // Outlives the server, whose calls it counts.
  ConnectionGate gate;
  grpc::CallbackGenericService nothing;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
};

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(
    const std::string& address, const std::vector<std::string>& services) {
  const auto refused = [&address](absl::string_view why) {
    return absl::UnavailableError(absl::StrCat("cannot serve health on ", address, " (", why,
                                               "); check that no other program listens there and "
                                               "that this machine has the address"));
  };
  if (const absl::Status valid = CheckListenAddress(address, "health"); !valid.ok()) {
    return refused(valid.message());
  }
  absl::StatusOr<ListeningSockets> sockets = Listen(address);
  if (!sockets.ok()) return refused(sockets.status().message());
  auto made = std::make_unique<Server>(*std::move(sockets));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  // gRPC needs a service other than health; this one refuses every method.
  builder.RegisterCallbackGenericService(&made->nothing);
  ConfigureTransport(kTransport, builder);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> counters;
  counters.push_back(std::make_unique<CallCounters>(made->gate, CallCounters::Idle::kAlways));
  builder.experimental().SetInterceptorCreators(std::move(counters));
  made->acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  made->server = builder.BuildAndStart();
  if (made->server == nullptr) return refused("gRPC cannot start a server; its log says why");
  grpc::HealthCheckServiceInterface* const health = made->server->GetHealthCheckService();
  health->SetServingStatus("", true);
  for (const std::string& service : services) health->SetServingStatus(service, true);
  made->gate.Start(HandOverTo(*made->server, *made->acceptor), "parplan-health");
  return std::unique_ptr<HealthServer>(new HealthServer(std::move(made)));
}

HealthServer::HealthServer(std::unique_ptr<Server> server) : server_(std::move(server)) {}

HealthServer::~HealthServer() {
  server_->gate.StopAccepting();
  server_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
}

void HealthServer::SetServing(bool is_serving) {
  server_->server->GetHealthCheckService()->SetServingStatus(is_serving);
}

void HealthServer::SetServing(const std::string& service, bool is_serving) {
  server_->server->GetHealthCheckService()->SetServingStatus(service, is_serving);
}

int HealthServer::port() const { return server_->gate.port(); }

}  // namespace parplan
