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

// Methods are those of execution_service.proto. Their errors are INVALID_ARGUMENT (SPEC_INVALID)
// naming the field of the request, NOT_FOUND (RESOURCE_NOT_FOUND) for the plan or execution,
// FAILED_PRECONDITION (PLAN_EXPIRED, EXECUTION_STATE), PERMISSION_DENIED (ROLE_REQUIRED),
// RESOURCE_EXHAUSTED and the failures of the server's store; an error of the server carries its
// `ErrorDetail` (base/error.h). Every call waits for its answer, at most `options.timeout`, then
// DEADLINE_EXCEEDED. A call that ends with UNAVAILABLE (also if no server answers) or CANCELLED is
// tried again, at most 4 attempts in all (retry.h). Safe to use from any thread.
class ExecutionClient {
 public:
  // `channel` is one of `MakeChannel`; several clients may share it.
  explicit ExecutionClient(std::shared_ptr<grpc::Channel> channel);
  // Takes a stub of a test.
  explicit ExecutionClient(std::unique_ptr<v1::ExecutionService::StubInterface> stub);

  // Fills in a new `request_id` if the request has none, so that all attempts of this call open the
  // same execution. A caller that may repeat the call sets its own.
  absl::StatusOr<v1::Execution> Create(v1::CreateExecutionRequest request,
                                       const CallOptions& options = {});

  // Reports windows, at least one, of the execution of this name. A stream that breaks is started
  // again, at most 4 attempts within `options.timeout`; windows that had arrived then count as
  // duplicates. Without windows the answer is OK, and the name is not checked.
  absl::StatusOr<v1::ReportMetricsResponse> Report(absl::string_view execution,
                                                   absl::Span<const v1::MeasuredWindow> windows,
                                                   const CallOptions& options = {});

  // Close an execution as succeeded, or as failed for the reason in the request, and return it. One
  // that was closed in the same way is returned as it is; one that was closed otherwise is
  // FAILED_PRECONDITION (EXECUTION_STATE).
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
