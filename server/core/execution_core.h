// Stores the measurements of executors and compares them with the prediction.
// server/rpc/execution_service.cc calls it.

#ifndef PARPLAN_SERVER_CORE_EXECUTION_CORE_H_
#define PARPLAN_SERVER_CORE_EXECUTION_CORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "parplan/v1/execution.pb.h"
#include "parplan/v1/execution_service.pb.h"
#include "server/core/call_context.h"
#include "server/core/call_guard.h"
#include "server/core/execution_figures.h"
#include "server/core/limits.h"
#include "server/core/lru_cache.h"
#include "server/core/observer.h"
#include "server/core/quota_keeper.h"
#include "server/store/store.h"

namespace parplan {

class ExecutionCore;

// One stream of `ReportMetrics`, which `ExecutionCore::StartReport` begins. Used by one thread at a
// time; the core outlives it.
class ReportSession {
 public:
  // Stores one window, which survives a crash once this returns OK. The first request names the
  // execution, and later ones name it too or none. A window that is stored already is counted and
  // changes nothing. After an error every further call returns it; windows stored before are kept.
  // Errors are those of `ExecutionCore`; RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE) beyond the `Limits`
  // of windows and executions; those of `QuotaKeeper`, which is asked for the first window and
  // after each megabyte; and for the first window those of `CallGuard::Check`.
  absl::Status Add(const v1::ReportMetricsRequest& request);

  // Takes in place of a request one that cannot be decoded, which `why`, an error, says. Returns
  // that, or before the first window the error of `CallGuard::CheckUndecoded`; so do all further
  // calls. After an error returns that error.
  absl::Status AddUndecoded(const absl::Status& why);

  // Returns how many windows the stream stored and how many were stored already, 0 if `Add` was
  // never called, or the error of `Add` or `AddUndecoded`.
  absl::StatusOr<v1::ReportMetricsResponse> Finish();

 private:
  friend class ExecutionCore;
  ReportSession(ExecutionCore* core, std::shared_ptr<CallContext> context)
      : core_(core), context_(std::move(context)) {}

  absl::Status AddImpl(const v1::ReportMetricsRequest& request);

  // Stores a window if the quotas allow it, which are asked now and then. One that is stored
  // already needs no room.
  absl::StatusOr<AppendResult> Append(const WindowRecord& window);

  // Finds the execution of the stream, if the caller may report to it, and the number of its ranks.
  absl::Status Open(const v1::ReportMetricsRequest& request);

  ExecutionCore* const core_;
  const std::shared_ptr<CallContext> context_;
  absl::Status failure_;
  std::string execution_;  // Empty until the first window.
  // The identity and the cluster whose quotas the windows count for.
  std::string owner_;
  std::string cluster_;
  // Bytes stored since the quotas were asked; none at first.
  std::optional<int64_t> unchecked_bytes_;
  int device_count_ = 0;
  v1::ReportMetricsResponse response_;
};

// The methods of ExecutionService. Whether the caller may make the call was checked before
// (`CallGuard`), except for streams. Every method may wait for the store's disk or network. Safe to
// use from any thread.
//
// Errors are those listed in execution_service.proto: INVALID_ARGUMENT (SPEC_INVALID) naming the
// field; NOT_FOUND (RESOURCE_NOT_FOUND) for the plan or execution; FAILED_PRECONDITION
// (PLAN_EXPIRED) from `Create` for a plan that had expired when the job began, (EXECUTION_STATE)
// for an execution that was closed in another way; RESOURCE_EXHAUSTED (QUOTA_EXCEEDED) from
// `Create` and reports; the store's UNAVAILABLE, DATA_LOSS and INTERNAL (all STORE_UNAVAILABLE).
class ExecutionCore {
 public:
  // REQUIRES, unchecked: the arguments outlive the core.
  ExecutionCore(Store& store, const Clock& clock, Observer& observer, const Limits& limits,
                CallGuard& guard, QuotaKeeper& quotas);

  // Opens an execution of the plan, in state running. The plan must be valid at the `start_time` of
  // the request; one that is absent, in the future, or before the plan by more than
  // `PlanVerifier::kIssueTimeTolerance` counts as now. A request for the same plan with the same
  // `request_id` returns the execution that the first one opened. `owner` is whoever opens it
  // (`Caller::owner`), and has its bytes in its quota; empty for no quota of an identity.
  absl::StatusOr<v1::Execution> Create(const v1::CreateExecutionRequest& request,
                                       const std::string& owner = "");
  // Starts a stream, which asks `CallGuard` with `context` at its first window. Never null.
  std::unique_ptr<ReportSession> StartReport(
      std::shared_ptr<CallContext> context = CallContext::OfItself());
  // Close an execution that runs or was abandoned (by `FailSilent`, or by a request to `Fail` that
  // says so), as succeeded, or as failed with the reason of the request, and return it with what
  // its windows measured. One that was closed in the same way is returned as it is, with its first
  // reason.
  absl::StatusOr<v1::Execution> Complete(const v1::CompleteExecutionRequest& request);
  absl::StatusOr<v1::Execution> Fail(const v1::FailExecutionRequest& request);
  // Returns the execution of this name with its stages and what its windows measured so far.
  absl::StatusOr<v1::Execution> Get(const v1::GetExecutionRequest& request);
  // Returns one page of the executions of a plan, newest first, without their stages, which `Get`
  // returns.
  absl::StatusOr<v1::ListExecutionsResponse> List(const v1::ListExecutionsRequest& request);

  // Marks executions as failed that received no report for `Limits::longest_execution_silence`, all
  // of it while this server ran; a later report reopens them. `ServerCore::Maintain` calls it.
  // Returns whether it may have left some to the next call (it marks 100 at most), or the first
  // error, which leaves the rest too.
  absl::StatusOr<bool> FailSilent();

 private:
  friend class ReportSession;

  // Returns the message of a stored execution, measurements included.
  absl::StatusOr<v1::Execution> ToMessage(const ExecutionRecord& record);

  // Closes an execution that runs or fell silent; returns one that is in `state` already.
  absl::StatusOr<v1::Execution> Close(const std::string& name, ExecutionState state,
                                      const std::string& failure_reason);

  // Returns the message of an execution that was just closed, and reports it to the observer.
  absl::StatusOr<v1::Execution> ReportClosed(const ExecutionRecord& record);

  // Returns the figures of the windows; `opened` is the message stored when the execution began.
  absl::StatusOr<std::shared_ptr<const ExecutionFigures>> FiguresOf(const ExecutionRecord& record,
                                                                    const v1::Execution& opened);

  Store& store_;
  const Clock& clock_;
  Observer& observer_;
  const Limits& limits_;
  CallGuard& guard_;
  QuotaKeeper& quotas_;
  // When the core was made, on the steady clock.
  const absl::Duration start_;
  // By name, start and number of windows. The number only grows, but an execution that was deleted
  // may be opened again under its name.
  LruCache<std::shared_ptr<const ExecutionFigures>> figures_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_EXECUTION_CORE_H_
