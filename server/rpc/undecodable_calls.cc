#include "server/rpc/undecodable_calls.h"

#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/access/access_table.h"
#include "server/rpc/bounded_request.h"
#include "server/rpc/peer_identity.h"
#include "server/rpc/request_memory.h"

namespace parplan {
namespace {

using grpc::experimental::InterceptionHookPoints;

constexpr char kPackage[] = "/parplan.v1.";
constexpr char kHealth[] = "/grpc.health.v1.Health/";

class Watcher final : public grpc::experimental::Interceptor {
 public:
  // `is_ours`: the method is one of the contract; else gRPC answers the call.
  Watcher(const RpcContext& rpc, grpc::experimental::ServerRpcInfo& info, bool is_ours)
      : rpc_(rpc), info_(info), is_ours_(is_ours), start_(rpc.core.clock().Steady()) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    // gRPC answers health itself, and does not say here whether the client has reset the call.
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA) &&
        absl::StartsWith(info_.method(), kHealth)) {
      rpc_.gate.CallRefused(info_.server_context()->peer());
      TakeMemory();
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS) &&
        methods->GetSendStatus().error_code() == grpc::StatusCode::UNIMPLEMENTED) {
      rpc_.gate.CallRefused(info_.server_context()->peer());
      if (is_ours_) Report();
    }
    methods->Proceed();
  }

 private:
  // A watch of health stays as long as its client likes. It counts as a request in progress, and is
  // cancelled where those have no more room.
  void TakeMemory() {
    grpc::ServerContextBase& context = *info_.server_context();
    const std::shared_ptr<const Caller> caller =
        CallerOf(context, rpc_.gate, rpc_.authorizer, rpc_.core.clock().Now());
    rpc_.requests.Reserve(this, kCallBytes);
    memory_ = rpc_.requests.Take(
        this, caller->owner().empty() ? HostOfPeer(context.peer()) : caller->owner());
    if (!memory_->status().ok() && absl::EndsWith(info_.method(), "/Watch")) context.TryCancel();
  }

  void Report() const {
    const absl::string_view path = info_.method();
    CallRecord record;
    record.method = std::string(path.substr(path.rfind('/') + 1));
    record.code = absl::StatusCode::kUnimplemented;
    record.message =
        "the request is no message of this method, or has more parts than any valid one";
    record.duration = rpc_.core.clock().Steady() - start_;
    record.peer = info_.server_context()->peer();
    record.identity =
        CallerOf(*info_.server_context(), rpc_.gate, rpc_.authorizer, rpc_.core.clock().Now())
            ->identity()
            .text();
    rpc_.core.observer().CallStarted(record.method);
    rpc_.core.observer().CallFinished(record.method, record.code, record.reason, record.duration);
    if (rpc_.logger) rpc_.logger(record);
  }

  const RpcContext& rpc_;
  grpc::experimental::ServerRpcInfo& info_;
  const bool is_ours_;
  const absl::Duration start_;
  // The share of a call of health, until gRPC destroys this at the end of the call; else null.
  std::unique_ptr<const RequestMemory::Share> memory_;
};

}  // namespace

grpc::experimental::Interceptor* UndecodableCalls::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* info) {
  // gRPC answers health, reflection and methods that do not exist.
  absl::string_view path = info->method();
  const AccessRow& row = RowOf(path.substr(path.rfind('/') + 1));
  const bool is_ours = absl::ConsumePrefix(&path, kPackage) &&
                       absl::ConsumePrefix(&path, row.service) && !row.service.empty() &&
                       absl::ConsumePrefix(&path, "/") && path == row.method;
  return new Watcher(rpc_, *info, is_ours);
}

}  // namespace parplan
