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

// Methods and their errors are those of execution_service.proto; an error of the
// server carries its `ErrorDetail`. Calls wait at most `options.timeout`, then DEADLINE_EXCEEDED;
// UNAVAILABLE if no server answers, after at most 4 attempts (retry.h). Safe to use from any
// thread.
class ExecutionClient {
 public:
  explicit ExecutionClient(std::shared_ptr<grpc::Channel> channel);
  // Takes a stub of a test.
  explicit ExecutionClient(std::unique_ptr<v1::ExecutionService::StubInterface> stub);

  // Fills in `request_id` if the request has none, so that it may be repeated.
  absl::StatusOr<v1::Execution> Create(v1::CreateExecutionRequest request,
                                       const CallOptions& options = {});

  // Reports windows, at least one, of the execution of this name. A stream that breaks is started
  // again, at most 4 attempts within `options.timeout`; windows that had arrived then count as
  // duplicates.
  absl::StatusOr<v1::ReportMetricsResponse> Report(absl::string_view execution,
                                                   absl::Span<const v1::MeasuredWindow> windows,
                                                   const CallOptions& options = {});

  absl::StatusOr<v1::Execution> Complete(const v1::CompleteExecutionRequest& request,
                                         const CallOptions& options = {});
  absl::StatusOr<v1::Execution> Fail(const v1::FailExecutionRequest& request,
                                     const CallOptions& options = {});
  absl::StatusOr<v1::Execution> Get(const v1::GetExecutionRequest& request,
                                    const CallOptions& options = {});
  absl::StatusOr<v1::ListExecutionsResponse> List(const v1::ListExecutionsRequest& request,
                                                  const CallOptions& options = {});

 private:
  const std::unique_ptr<v1::ExecutionService::StubInterface> stub_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_EXECUTION_CLIENT_H_
