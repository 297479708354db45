// `AgentService` of services.h.

#include "server/rpc/agent_call.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"

namespace parplan {

AgentService::AgentService(const RpcContext& rpc) : BoundedService(rpc.requests), rpc_(rpc) {
  Bound("ListAgents", this, &AgentService::ListAgents);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* AgentService::ConnectAgent(
    grpc::CallbackServerContext* context) {
  return AgentCall::Start(rpc_, context);
}

grpc::ServerUnaryReactor* AgentService::ListAgents(grpc::CallbackServerContext* context,
                                                   const v1::ListAgentsRequest* request,
                                                   v1::ListAgentsResponse* response) {
  return AnswerNow(rpc_, __func__, context, request, response,
                   [this, request] { return rpc_.core.agents().List(*request); });
}

}  // namespace parplan
