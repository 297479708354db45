// The reflection of gRPC (grpc.reflection.v1alpha), by which clients without generated code learn
// the contract. It takes no thread for a stream and decodes no large request.

#ifndef PARPLAN_SERVER_RPC_REFLECTION_SERVICE_H_
#define PARPLAN_SERVER_RPC_REFLECTION_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <atomic>
#include <string>
#include <vector>

#include "server/rpc/call.h"

namespace parplan {

// The full name of the service.
inline constexpr char kReflectionService[] = "grpc.reflection.v1alpha.ServerReflection";

// Answers one question after another on each stream (`AnswerReflection`). A stream ends with
//   - OK once the client has closed its side;
//   - the error of `AnswerReflection`;
//   - RESOURCE_EXHAUSTED (QUEUE_FULL) if 64 streams are open;
//   - CANCELLED if the client asks nothing, or does not read an answer, for
//     `RpcContext::max_stream_silence`, for `RpcContext::max_first_silence` at first.
// Everybody may ask: the contract is public, and whoever needs a certificate here has shown it.
class ReflectionService final : public grpc::Service {
 public:
  // `services` are the names of the contract's services; health and reflection are added. `rpc`
  // outlives the service.
  ReflectionService(const RpcContext& rpc, std::vector<std::string> services);

 private:
  class Stream;

  const RpcContext& rpc_;
  std::vector<std::string> services_;
  std::atomic<int> stream_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_REFLECTION_SERVICE_H_
