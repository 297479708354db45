// Counts and logs calls whose request is no message of their method. gRPC answers them before any
// service sees them, so they have no `Call`.

#ifndef PARPLAN_SERVER_RPC_UNDECODABLE_CALLS_H_
#define PARPLAN_SERVER_RPC_UNDECODABLE_CALLS_H_

#include <grpcpp/support/server_interceptor.h>

#include "server/rpc/call.h"

namespace parplan {

// Looks at the status of every call. gRPC 1.51 answers with UNIMPLEMENTED if it cannot decode a
// request, also because the client reset the call before it was whole, and no method of this server
// does. Each such call is one for `Observer`, one for the logger of `rpc`, both with UNIMPLEMENTED,
// and one for `ConnectionGate::CallRefused`; calls of unknown methods are one for the gate alone.
// Requests of a stream are not seen: one that cannot be decoded looks like the end of the stream.
class UndecodableCalls final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // `rpc` outlives the server that has this factory.
  explicit UndecodableCalls(const RpcContext& rpc) : rpc_(rpc) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  const RpcContext& rpc_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_UNDECODABLE_CALLS_H_
