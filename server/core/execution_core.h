// Takes the measurements of executors and sets them beside the prediction.

#ifndef PARPLAN_SERVER_CORE_EXECUTION_CORE_H_
#define PARPLAN_SERVER_CORE_EXECUTION_CORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "parplan/v1/execution.pb.h"
#include "parplan/v1/execution_service.pb.h"
#include "server/core/clock.h"
#include "server/core/limits.h"
#include "server/core/observer.h"
#include "server/store/store.h"

namespace parplan {

// One stream of `ReportMetrics`. One thread at a time.
class ReportSession {
 public:
  // Stores one window; it survives a crash once this returns OK. A window that
  // is stored already is counted and changes nothing. After an error the session
  // takes no more; what came before is kept.
  absl::Status Add(const v1::ReportMetricsRequest& request);

  // What the stream stored. INVALID_ARGUMENT (SPEC_INVALID) when it was empty.
  absl::StatusOr<v1::ReportMetricsResponse> Finish();

 private:
  friend class ExecutionCore;
  explicit ReportSession(class ExecutionCore* core) : core_(core) {}

  class ExecutionCore* core_;
  std::string execution_;   // Empty until the first window.
  int device_count_ = 0;    // Of its plan.
  int64_t stored_ = 0;
  int64_t duplicate_ = 0;
};

// Errors are those listed in execution_service.proto. Every method may wait for
// the store's disk. Safe to use from any thread.
class ExecutionCore {
 public:
  // All outlive the core.
  ExecutionCore(Store& store, const Clock& clock, Observer& observer, const Limits& limits);

  absl::StatusOr<v1::Execution> Create(const v1::CreateExecutionRequest& request);
  std::unique_ptr<ReportSession> StartReport();
  absl::StatusOr<v1::Execution> Complete(const v1::CompleteExecutionRequest& request);
  absl::StatusOr<v1::Execution> Fail(const v1::FailExecutionRequest& request);
  absl::StatusOr<v1::Execution> Get(const v1::GetExecutionRequest& request);
  absl::StatusOr<v1::ListExecutionsResponse> List(const v1::ListExecutionsRequest& request);

 private:
  friend class ReportSession;

  // Closes a running execution, or gives back one that is in `state` already.
  absl::StatusOr<v1::Execution> Close(const std::string& name, v1::Execution::State state,
                                      const std::string& failure_reason);

  Store& store_;
  const Clock& clock_;
  Observer& observer_;
  const Limits& limits_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_EXECUTION_CORE_H_
