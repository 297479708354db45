// Takes the measurements of executors and sets them beside the prediction.

#ifndef PARPLAN_SERVER_CORE_EXECUTION_CORE_H_
#define PARPLAN_SERVER_CORE_EXECUTION_CORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "parplan/v1/execution.pb.h"
#include "parplan/v1/execution_service.pb.h"
#include "server/core/execution_figures.h"
#include "server/core/limits.h"
#include "server/core/lru_cache.h"
#include "server/core/observer.h"
#include "server/store/store.h"

namespace parplan {

class ExecutionCore;

// One stream of `ReportMetrics`. One thread at a time.
class ReportSession {
 public:
  // Stores one window; it survives a crash once this returns OK. A window that
  // is stored already is counted and changes nothing. After an error the session
  // takes no more and repeats it; what came before is kept.
  absl::Status Add(const v1::ReportMetricsRequest& request);

  // What the stream stored.
  absl::StatusOr<v1::ReportMetricsResponse> Finish();

 private:
  friend class ExecutionCore;
  explicit ReportSession(ExecutionCore* core) : core_(core) {}

  absl::Status AddImpl(const v1::ReportMetricsRequest& request);

  // Finds the execution the stream is about, and how many ranks it has.
  absl::Status Open(const std::string& execution);

  ExecutionCore* const core_;
  absl::Status failure_;
  std::string execution_;  // Empty until the first window.
  int device_count_ = 0;
  v1::ReportMetricsResponse response_;
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

  // Abandons executions that nobody reported to for `Limits::longest_execution_silence`, in which
  // this server was there all the time: failed, until they report again. Gives the first error.
  absl::Status FailSilent();

 private:
  friend class ReportSession;

  // The message of a stored execution, measurements included.
  absl::StatusOr<v1::Execution> ToMessage(const ExecutionRecord& record);

  // Closes one that runs or was abandoned, or gives back one that is in `state` already.
  absl::StatusOr<v1::Execution> Close(const std::string& name, ExecutionState state,
                                      const std::string& failure_reason);

  // The message of an execution that was just closed; the observer hears of it.
  absl::StatusOr<v1::Execution> TellClosed(const ExecutionRecord& record);

  // `opened`: what was known when the execution was opened.
  absl::StatusOr<std::shared_ptr<const ExecutionFigures>> FiguresOf(const ExecutionRecord& record,
                                                                    const v1::Execution& opened);

  Store& store_;
  const Clock& clock_;
  Observer& observer_;
  const Limits& limits_;
  // By the steady clock.
  const absl::Duration start_;
  // By name and number of windows, which only grows.
  LruCache<std::shared_ptr<const ExecutionFigures>> figures_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_EXECUTION_CORE_H_
