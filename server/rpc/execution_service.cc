#include <memory>

#include "server/core/execution_core.h"
#include "server/rpc/client_stream_call.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"

namespace parplan {

grpc::ServerUnaryReactor* ExecutionService::CreateExecution(
    grpc::CallbackServerContext* context, const v1::CreateExecutionRequest* request,
    v1::Execution* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request](const Caller& caller) {
                        return rpc_.core.executions().Create(*request, caller.owner());
                      });
}

grpc::ServerReadReactor<v1::ReportMetricsRequest>* ExecutionService::ReportMetrics(
    grpc::CallbackServerContext* context, v1::ReportMetricsResponse* response) {
  using ReportCall =
      ClientStreamCall<v1::ReportMetricsRequest, v1::ReportMetricsResponse, ReportSession>;
  return ReportCall::Start(rpc_, __func__, context, response,
                           [this](const std::shared_ptr<CallContext>& call) {
                             return rpc_.core.executions().StartReport(call);
                           });
}

grpc::ServerUnaryReactor* ExecutionService::CompleteExecution(
    grpc::CallbackServerContext* context, const v1::CompleteExecutionRequest* request,
    v1::Execution* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.executions().Complete(*request); });
}

grpc::ServerUnaryReactor* ExecutionService::FailExecution(grpc::CallbackServerContext* context,
                                                          const v1::FailExecutionRequest* request,
                                                          v1::Execution* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.executions().Fail(*request); });
}

grpc::ServerUnaryReactor* ExecutionService::GetExecution(grpc::CallbackServerContext* context,
                                                         const v1::GetExecutionRequest* request,
                                                         v1::Execution* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.executions().Get(*request); });
}

grpc::ServerUnaryReactor* ExecutionService::ListExecutions(grpc::CallbackServerContext* context,
                                                           const v1::ListExecutionsRequest* request,
                                                           v1::ListExecutionsResponse* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.executions().List(*request); });
}

}  // namespace parplan
