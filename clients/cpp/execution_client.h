// Reports to a server what an execution of a plan measured. `MakeServerSink`, `planctl executions`
// and the tools for Slurm use it.

#ifndef PARPLAN_CLIENTS_CPP_EXECUTION_CLIENT_H_
#define PARPLAN_CLIENTS_CPP_EXECUTION_CLIENT_H_

#include <grpcpp/channel.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "clients/cpp/channel.h"
#include "parplan/v1/execution_service.grpc.pb.h"

namespace parplan {

// The methods of execution_service.proto. Safe to use from any thread. Every call waits for its
// answer, at most `options.timeout` with all attempts. A call that ends with UNAVAILABLE (also if
// no server answers) or CANCELLED is tried again, at most 4 attempts in all (retry.h). Errors of
// every method, where an error of the server carries its `ErrorDetail` (base/error.h):
//   - INVALID_ARGUMENT (SPEC_INVALID) with the field of the request;
//   - NOT_FOUND (RESOURCE_NOT_FOUND) for the plan or execution;
//   - FAILED_PRECONDITION (PLAN_EXPIRED, EXECUTION_STATE);
//   - PERMISSION_DENIED or UNAUTHENTICATED (ROLE_REQUIRED);
//   - RESOURCE_EXHAUSTED (QUOTA_EXCEEDED, UPLOAD_TOO_LARGE);
//   - UNAVAILABLE and DATA_LOSS for failures of the server, UNAVAILABLE if no server answers;
//   - DEADLINE_EXCEEDED if `options.timeout` has passed.
class ExecutionClient {
 public:
  // `channel` comes from `MakeChannel` (channel.h); several clients may use the same channel.
  explicit ExecutionClient(std::shared_ptr<grpc::Channel> channel);
  // Tests call this with a stub of their own.
  explicit ExecutionClient(std::unique_ptr<v1::ExecutionService::StubInterface> stub);

  // Fills in a new `request_id` if the request has none, so that all attempts of this call open the
  // same execution. A caller that may repeat the call sets its own.
  absl::StatusOr<v1::Execution> Create(v1::CreateExecutionRequest request,
                                       const CallOptions& options = {});

  // Reports windows of the execution of this name. A stream that breaks is started again from the
  // first window, with at most 4 attempts within `options.timeout`; windows that had arrived by
  // then count as duplicates. If `windows` is empty, the answer is OK and the name is not checked.
  absl::StatusOr<v1::ReportMetricsResponse> Report(absl::string_view execution,
                                                   absl::Span<const v1::MeasuredWindow> windows,
                                                   const CallOptions& options = {});

  // Close an execution as succeeded, or as failed for the reason in the request, and return it. An
  // execution that was closed in the same way before is returned unchanged. FAILED_PRECONDITION
  // (EXECUTION_STATE) for one that was closed in the other way, unless it was only abandoned.
  absl::StatusOr<v1::Execution> Complete(const v1::CompleteExecutionRequest& request,
                                         const CallOptions& options = {});
  absl::StatusOr<v1::Execution> Fail(const v1::FailExecutionRequest& request,
                                     const CallOptions& options = {});
  // Returns the execution of this name with what was predicted and measured of its stages.
  absl::StatusOr<v1::Execution> Get(const v1::GetExecutionRequest& request,
                                    const CallOptions& options = {});
  // Returns one page of the executions of a plan, newest first, without their stages.
  absl::StatusOr<v1::ListExecutionsResponse> List(const v1::ListExecutionsRequest& request,
                                                  const CallOptions& options = {});

 private:
  const std::unique_ptr<v1::ExecutionService::StubInterface> stub_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_EXECUTION_CLIENT_H_
