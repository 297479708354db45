// Counts and logs calls whose request is no message of their method. gRPC answers them before any
// service sees them, so they have no `Call`. `RpcServer` registers one with its server.

#ifndef PARPLAN_SERVER_RPC_UNDECODABLE_CALLS_H_
#define PARPLAN_SERVER_RPC_UNDECODABLE_CALLS_H_

#include <grpcpp/support/server_interceptor.h>

#include "server/rpc/call.h"

namespace parplan {

// Looks at the status of every call and finds those that gRPC ended with UNIMPLEMENTED. gRPC 1.51
// gives this status to a call whose request it cannot decode, also if the client reset the call
// before its request was whole, and to a call of an unknown method. Methods of this server must not
// answer UNIMPLEMENTED: their calls would count as undecodable.
//
// An undecodable call is counted once by the core's `Observer` and logged once by the logger of
// `rpc`, both with UNIMPLEMENTED, and `ConnectionGate::CallRefused` is called for it. For a method
// that is not of the contract only the gate is called, and so it is for every call of health, which
// gRPC answers: nothing says whether its client reset it, and gRPC keeps memory of those.
//
// Requests of a stream are not seen: one that cannot be decoded looks like the end of the stream.
// Safe to use from any thread: gRPC makes an interceptor for each call, which it then owns, and
// calls it from its threads.
class UndecodableCalls final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // `rpc` must outlive the server that has this factory.
  explicit UndecodableCalls(const RpcContext& rpc) : rpc_(rpc) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  const RpcContext& rpc_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_UNDECODABLE_CALLS_H_
