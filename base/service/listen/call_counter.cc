#include "base/service/listen/call_counter.h"

#include <grpcpp/server_context.h>

#include <string>

namespace parplan {
namespace {

class Counter final : public grpc::experimental::Interceptor {
 public:
  Counter(ConnectionGate& gate, grpc::experimental::ServerRpcInfo& info, bool marks_progress)
      : gate_(gate), info_(info), marks_progress_(marks_progress) {}
  // gRPC destroys it at the end of the call.
  ~Counter() override {
    if (marks_progress_ && !peer_.empty()) gate_.CallEnded(peer_, false);
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      peer_ = info_.server_context()->peer();
      if (marks_progress_) gate_.CallStarted(peer_);
      gate_.CallRefused(peer_);
    }
    methods->Proceed();
  }

 private:
  ConnectionGate& gate_;
  grpc::experimental::ServerRpcInfo& info_;
  const bool marks_progress_;
  std::string peer_;
};

}  // namespace

grpc::experimental::Interceptor* CallCounters::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* info) {
  return new Counter(gate_, *info, idle_ == Idle::kWithoutCall);
}

}  // namespace parplan
