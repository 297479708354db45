// An interface by which a job reports its measurements, to a server or to a fake of a test.
// `ExecutionReporter` (executor/report) and the sidecar report to one.

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

// `Create` opens an execution, any number of `Report`s add its windows, and one of `Complete`,
// `Fail` and `Abandon` closes it. A sink serves any number of executions, also several at the same
// time, and keeps no state about them.
//
// Used by one thread at a time. Each call waits for the server, at most `timeout` with all
// attempts. `execution` is the name that `Create` returned. Errors of every call:
//   - INVALID_ARGUMENT (SPEC_INVALID): a name, window or other value is malformed.
//   - NOT_FOUND (RESOURCE_NOT_FOUND): there is no such plan or execution.
//   - FAILED_PRECONDITION: in `Create` the plan had expired at the start time (PLAN_EXPIRED), in
//     the others the execution is closed in a way that forbids the call (EXECUTION_STATE).
//   - DEADLINE_EXCEEDED: `timeout` has passed. UNAVAILABLE: no server answers.
//   - Others: execution_service.proto lists them.
// A fake may return any of them. REQUIRES, unchecked: `timeout` is finite.
class ExecutionSink {
 public:
  virtual ~ExecutionSink() = default;
  // Opens an execution of a plan and returns its name: the same name for the same `request_id`, so
  // that a call may be repeated. If `request_id` is empty, each call takes a new random one and
  // opens another execution. Set `start_time`, the time at which the job began, if the call may
  // reach the server later: the plan must have been valid then, and the default is the server's
  // time of the call.
  virtual absl::StatusOr<std::string> Create(const v1::CreateExecutionRequest& request,
                                             absl::Duration timeout) = 0;
  // Adds windows to an execution that is open or abandoned; an abandoned one is open again
  // afterwards. A window with the rank and first step of an earlier one changes nothing, so that a
  // call may be repeated. REQUIRES: `windows` is not empty. The sink of `MakeServerSink` returns OK
  // for no windows, and does not check the name then.
  virtual absl::Status Report(const std::string& execution,
                              absl::Span<const v1::MeasuredWindow> windows,
                              absl::Duration timeout) = 0;
  // Closes an execution, open or abandoned, whose job has ended as it should. It takes no more
  // windows. Completing a completed execution is OK and changes nothing; completing a failed one is
  // FAILED_PRECONDITION (EXECUTION_STATE).
  virtual absl::Status Complete(const std::string& execution, absl::Duration timeout) = 0;
  // Closes an execution, open or abandoned, whose job has failed. It takes no more windows. Failing
  // a failed execution is OK and changes nothing; failing a completed one is FAILED_PRECONDITION
  // (EXECUTION_STATE).
  //
  // `reason`, here and in `Abandon`, is text for people. The sink of `MakeServerSink` truncates it
  // to 1024 characters, and replaces bytes that are not UTF-8 by U+FFFD and NUL by a blank.
  virtual absl::Status Fail(const std::string& execution, const std::string& reason,
                            absl::Duration timeout) = 0;
  // Closes an execution whose end is unknown, because its job stopped reporting. The next report
  // opens it again. Abandoning an abandoned or failed execution is OK and changes nothing;
  // abandoning a completed one is FAILED_PRECONDITION (EXECUTION_STATE).
  virtual absl::Status Abandon(const std::string& execution, const std::string& reason,
                               absl::Duration timeout) = 0;
};

// Makes a sink that calls the ExecutionService of a server through an `ExecutionClient`
// (execution_client.h), which makes at most 4 attempts within the timeout of a call. Does not
// connect; the first call does. Returns the errors of MakeChannel (channel.h), all INVALID_ARGUMENT
// (SPEC_INVALID).
absl::StatusOr<std::unique_ptr<ExecutionSink>> MakeServerSink(const ChannelOptions& options);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_EXECUTION_SINK_H_
