// Receives the measurements of a job: a server, or a fake of a test. `ExecutionReporter`
// (executor/report) and the sidecar report to one.

#ifndef PARPLAN_CLIENTS_CPP_EXECUTION_SINK_H_
#define PARPLAN_CLIENTS_CPP_EXECUTION_SINK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "clients/cpp/channel.h"
#include "parplan/v1/execution.pb.h"

namespace parplan {

// Not thread-safe. Calls return within `timeout`, with the errors of execution_service.proto;
// DEADLINE_EXCEEDED after it and UNAVAILABLE if no server answers. Texts `plan` and `execution` are
// names of resources; a reason is cut to 1024 bytes.
class ExecutionSink {
 public:
  virtual ~ExecutionSink() = default;
  // Opens an execution of `plan` and gives its name; the same for the same `request_id`.
  virtual absl::StatusOr<std::string> Create(const std::string& plan, const std::string& request_id,
                                             absl::Duration timeout) = 0;
  // Reports windows, at least one; sending a window again changes nothing.
  virtual absl::Status Report(const std::string& execution,
                              absl::Span<const v1::MeasuredWindow> windows,
                              absl::Duration timeout) = 0;
  virtual absl::Status Complete(const std::string& execution, absl::Duration timeout) = 0;
  virtual absl::Status Fail(const std::string& execution, const std::string& reason,
                            absl::Duration timeout) = 0;
  // Fails the execution; the next report opens it again.
  virtual absl::Status Abandon(const std::string& execution, const std::string& reason,
                               absl::Duration timeout) = 0;
};

// Makes a sink that calls the ExecutionService of a server (ExecutionClient: at most 4 attempts a
// call). Does not connect; the errors of MakeChannel, all INVALID_ARGUMENT (SPEC_INVALID).
absl::StatusOr<std::unique_ptr<ExecutionSink>> MakeServerSink(const ChannelOptions& options);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_EXECUTION_SINK_H_
