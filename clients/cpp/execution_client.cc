#include "clients/cpp/execution_client.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "clients/cpp/retry.h"
#include "clients/cpp/status_from_grpc.h"
#include "clients/cpp/unary.h"

namespace parplan {
namespace {

using ExecutionStub = v1::ExecutionService::StubInterface;

}  // namespace

ExecutionClient::ExecutionClient(std::shared_ptr<grpc::Channel> channel)
    : stub_(v1::ExecutionService::NewStub(std::move(channel))) {}

ExecutionClient::ExecutionClient(std::unique_ptr<v1::ExecutionService::StubInterface> stub)
    : stub_(std::move(stub)) {}

absl::StatusOr<v1::Execution> ExecutionClient::Create(v1::CreateExecutionRequest request,
                                                      const CallOptions& options) {
  if (request.request_id().empty()) request.set_request_id(MakeUuid());
  return CallUnary(*stub_, &ExecutionStub::CreateExecution, request, options);
}

absl::StatusOr<v1::ReportMetricsResponse> ExecutionClient::Report(
    absl::string_view execution, absl::Span<const v1::MeasuredWindow> windows,
    const CallOptions& options) {
  return WithRetries(options,
                     [&](const CallOptions& rest) -> absl::StatusOr<v1::ReportMetricsResponse> {
                       grpc::ClientContext context;
                       ApplyCallOptions(rest, context);
                       v1::ReportMetricsResponse response;
                       const auto writer = stub_->ReportMetrics(&context, &response);
                       v1::ReportMetricsRequest message;
                       message.set_execution(std::string(execution));
                       for (const v1::MeasuredWindow& window : windows) {
                         *message.mutable_window() = window;
                         if (!writer->Write(message)) break;  // `Finish` says why.
                       }
                       writer->WritesDone();
                       const absl::Status status = FromGrpcStatus(writer->Finish());
                       if (!status.ok()) return status;
                       return response;
                     });
}

absl::StatusOr<v1::Execution> ExecutionClient::Complete(const v1::CompleteExecutionRequest& request,
                                                        const CallOptions& options) {
  return CallUnary(*stub_, &ExecutionStub::CompleteExecution, request, options);
}

absl::StatusOr<v1::Execution> ExecutionClient::Fail(const v1::FailExecutionRequest& request,
                                                    const CallOptions& options) {
  return CallUnary(*stub_, &ExecutionStub::FailExecution, request, options);
}

absl::StatusOr<v1::Execution> ExecutionClient::Get(const v1::GetExecutionRequest& request,
                                                   const CallOptions& options) {
  return CallUnary(*stub_, &ExecutionStub::GetExecution, request, options);
}

absl::StatusOr<v1::ListExecutionsResponse> ExecutionClient::List(
    const v1::ListExecutionsRequest& request, const CallOptions& options) {
  return CallUnary(*stub_, &ExecutionStub::ListExecutions, request, options);
}

}  // namespace parplan
