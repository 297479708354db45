// `ExecutionService` of services.h.

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "server/core/execution_core.h"
#include "server/core/request_rules.h"
#include "server/rpc/bounded_request.h"
#include "server/rpc/client_stream_call.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"

namespace parplan {
namespace {

// A report whose messages and answer are bytes. A message that cannot be decoded ends it with
// INVALID_ARGUMENT, of a caller who may report; if gRPC decoded it, it would look like the end of
// the stream.
class RawReport {
 public:
  explicit RawReport(std::unique_ptr<ReportSession> session) : session_(std::move(session)) {}

  absl::Status Add(const grpc::ByteBuffer& message) {
    grpc::Slice whole;
    if (!message.DumpToSingleSlice(&whole).ok()) {
      return absl::InternalError("the server cannot read a message of the report");
    }
    const absl::string_view bytes(reinterpret_cast<const char*>(whole.begin()), whole.size());
    v1::ReportMetricsRequest request;
    if (!HasFewParts(*request.descriptor(), bytes, kMaxRequestParts) ||
        !request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return session_->AddUndecoded(
          RequestError("window",
                       "is no message of parplan.v1.ReportMetricsRequest, or has more parts than "
                       "any window"));
    }
    return session_->Add(request);
  }

  absl::StatusOr<grpc::ByteBuffer> Finish() {
    PARPLAN_ASSIGN_OR_RETURN(const v1::ReportMetricsResponse response, session_->Finish());
    const grpc::Slice slice(response.SerializeAsString());
    return grpc::ByteBuffer(&slice, 1);
  }

 private:
  std::unique_ptr<ReportSession> session_;
};

}  // namespace

ExecutionService::ExecutionService(const RpcContext& rpc)
    : BoundedService(rpc.requests), rpc_(rpc) {
  Bound("CreateExecution", this, &ExecutionService::CreateExecution);
  Bound("CompleteExecution", this, &ExecutionService::CompleteExecution);
  Bound("FailExecution", this, &ExecutionService::FailExecution);
  Bound("GetExecution", this, &ExecutionService::GetExecution);
  Bound("ListExecutions", this, &ExecutionService::ListExecutions);
}

grpc::ServerUnaryReactor* ExecutionService::CreateExecution(
    grpc::CallbackServerContext* context, const v1::CreateExecutionRequest* request,
    v1::Execution* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request](const Caller& caller) {
                        return rpc_.core.executions().Create(*request, caller.owner());
                      });
}

grpc::ServerReadReactor<grpc::ByteBuffer>* ExecutionService::ReportMetrics(
    grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  using ReportCall = ClientStreamCall<grpc::ByteBuffer, grpc::ByteBuffer, RawReport>;
  return ReportCall::Start(
      rpc_, __func__, context, response, [this](const std::shared_ptr<CallContext>& call) {
        return std::make_unique<RawReport>(rpc_.core.executions().StartReport(call));
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
