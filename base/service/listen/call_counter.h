// Counts the calls of a gRPC server against their connections, for servers that do not count them
// themselves: `HealthServer` (base/service/health) and the sidecar.
//
//   interceptors.push_back(std::make_unique<CallCounters>(gate, CallCounters::Idle::kWithoutCall));
//   builder.experimental().SetInterceptorCreators(std::move(interceptors));

#ifndef PARPLAN_BASE_SERVICE_LISTEN_CALL_COUNTER_H_
#define PARPLAN_BASE_SERVICE_LISTEN_CALL_COUNTER_H_

#include <grpcpp/support/server_interceptor.h>

#include "base/service/listen/connection_gate.h"

namespace parplan {

// Counts each call as one that its client cancelled, because gRPC 1.51 does not say at its
// beginning whether the client has reset it, and keeps 20 KB of each call that it hands out in
// vain, whatever the limit of concurrent streams. So `ConnectionLimits::max_cancelled_calls` is a
// limit of all calls here. Safe to use from any thread.
class CallCounters final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // Says which connections may give way to new ones.
  enum class Idle {
    // All of them, the oldest first.
    kAlways,
    // Those without a call in progress.
    kWithoutCall,
  };

  // `gate` must outlive the server.
  CallCounters(ConnectionGate& gate, Idle idle) : gate_(gate), idle_(idle) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  ConnectionGate& gate_;
  const Idle idle_;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LISTEN_CALL_COUNTER_H_
