#include "base/service/health/health_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

// Reflection, once turned on, becomes a plugin of every server of the process; this one removes it.
class NoPlugins : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }
};

}  // namespace

struct HealthServer::Server {
  int port = 0;
  grpc::CallbackGenericService nothing;
  std::unique_ptr<grpc::Server> server;
};

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(
    const std::string& address, const std::vector<std::string>& services) {
  auto made = std::make_unique<Server>();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<NoPlugins>());
  // gRPC needs a service other than health; this one refuses every method.
  builder.RegisterCallbackGenericService(&made->nothing);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &made->port);
  made->server = builder.BuildAndStart();
  if (made->server == nullptr || made->port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve health on ", address,
                     "; check that no other program listens there and that "
                     "this machine has the address"));
  }
  grpc::HealthCheckServiceInterface* const health = made->server->GetHealthCheckService();
  health->SetServingStatus("", true);
  for (const std::string& service : services) health->SetServingStatus(service, true);
  return std::unique_ptr<HealthServer>(new HealthServer(std::move(made)));
}

HealthServer::HealthServer(std::unique_ptr<Server> server) : server_(std::move(server)) {}

HealthServer::~HealthServer() {
  server_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
}

void HealthServer::SetServing(bool is_serving) {
  server_->server->GetHealthCheckService()->SetServingStatus(is_serving);
}

void HealthServer::SetServing(const std::string& service, bool is_serving) {
  server_->server->GetHealthCheckService()->SetServingStatus(service, is_serving);
}

int HealthServer::port() const { return server_->port; }

}  // namespace parplan
