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
#include "parplan/v1/execution_service.pb.h"

namespace parplan {

// An execution is opened by `Create`, gets its windows by any number of `Report`s, and is closed by
// one of `Complete`, `Fail` and `Abandon`. A sink serves any number of executions, one after the
// other or in turn, and keeps nothing about them.
//
// Used by one thread at a time. Each call waits for the server, and returns within `timeout` with
// the errors of execution_service.proto, DEADLINE_EXCEEDED at its end, or UNAVAILABLE if no server
// answers. An `execution` is the name that `Create` returned. A reason is text for people; more
// than 1024 characters are cut off, and bytes that are not UTF-8, and NUL, are replaced.
class ExecutionSink {
 public:
  virtual ~ExecutionSink() = default;
  // Opens an execution of a plan and returns its name: the same name for the same `request_id`, so
  // that a call may be repeated. If `request_id` is empty, a new random one is taken, and another
  // call opens another execution. A caller that may reach the server late gives the `start_time`.
  virtual absl::StatusOr<std::string> Create(const v1::CreateExecutionRequest& request,
                                             absl::Duration timeout) = 0;
  // Reports windows of an open execution, at least one (a sink of `MakeServerSink` takes none, too,
  // and returns OK without a check); sending a window again changes nothing.
  virtual absl::Status Report(const std::string& execution,
                              absl::Span<const v1::MeasuredWindow> windows,
                              absl::Duration timeout) = 0;
  // Closes an execution whose job has ended as it should.
  virtual absl::Status Complete(const std::string& execution, absl::Duration timeout) = 0;
  // Closes an execution whose job has failed for `reason`. It takes no more windows.
  virtual absl::Status Fail(const std::string& execution, const std::string& reason,
                            absl::Duration timeout) = 0;
  // Closes an execution whose end is unknown, because its job stopped reporting. The next report
  // opens it again.
  virtual absl::Status Abandon(const std::string& execution, const std::string& reason,
                               absl::Duration timeout) = 0;
};

// Makes a sink that calls the ExecutionService of a server (ExecutionClient: at most 4 attempts a
// call). Does not connect; the first call does. Returns the errors of MakeChannel, all
// INVALID_ARGUMENT (SPEC_INVALID).
absl::StatusOr<std::unique_ptr<ExecutionSink>> MakeServerSink(const ChannelOptions& options);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_EXECUTION_SINK_H_
