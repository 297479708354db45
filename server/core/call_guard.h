// Checks calls against the table of roles: finds what each request is about, and asks the store
// whose plan it is where that decides. server/rpc asks it before every call but those in which the
// client sends a stream (`UploadProfile`, `ReportMetrics`, `ConnectAgent`): their sessions ask it
// themselves once they know what they are about.

#ifndef PARPLAN_SERVER_CORE_CALL_GUARD_H_
#define PARPLAN_SERVER_CORE_CALL_GUARD_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/agent_service.pb.h"
#include "parplan/v1/calibration_service.pb.h"
#include "parplan/v1/execution_service.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/profile_service.pb.h"
#include "server/access/access_table.h"
#include "server/access/caller.h"
#include "server/audit/audit_record.h"
#include "server/core/call_context.h"
#include "server/store/store.h"

namespace parplan {

// The subject of a call, before the store is asked.
struct CallTarget {
  enum class Kind {
    // Something that is stored, or no resource at all.
    kExisting,
    // A plan that the call makes, which is then the caller's own.
    kNewPlan,
    // Plans of a cluster, which the core lists as far as they are the caller's own.
    kPlanList,
  };

  Kind kind = Kind::kExisting;
  // The subject as the request names it. Owner and job of an existing plan are not filled in.
  Resource resource;
  // The resource name of the plan whose owner and job decide; empty if none does.
  std::string plan;
};

// Return what a request is about. The errors are those that the core has for the same names:
// INVALID_ARGUMENT (SPEC_INVALID).
absl::StatusOr<CallTarget> TargetOf(const v1::ListAgentsRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::UploadCalibrationRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::GetCalibrationRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::ListCalibrationsRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::ActivateCalibrationRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::GetActiveCalibrationRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::CreateExecutionRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::CompleteExecutionRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::FailExecutionRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::GetExecutionRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::ListExecutionsRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::ReportMetricsRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::ShapePlanRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::CreatePlanRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::GetPlanRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::ListPlansRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::VerifyPlanRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::ExportPlanRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::GetCapabilitiesRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::UploadHeader& header);
absl::StatusOr<CallTarget> TargetOf(const v1::GetProfileRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::ListProfilesRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::DeleteProfileRequest& request);
absl::StatusOr<CallTarget> TargetOf(const v1::AgentHello& hello);

// Safe to use from any thread.
class CallGuard {
 public:
  // REQUIRES, unchecked: the arguments outlive the guard.
  CallGuard(Store& store, AuditSink& audit) : store_(store), audit_(audit) {}

  // Returns OK if the caller may make the call, which then is in the audit log if it changes
  // something; the plan that it makes gets its line when it is signed. `method` is the name in the
  // contract, such as `GetPlan`. An unrestricted caller may read without further checks.
  // PERMISSION_DENIED (ROLE_REQUIRED) if the caller may not make the call, also for a plan that
  // does not exist if the caller could not see it: it learns nothing of the plans of others. A
  // refused caller gets its refusal (`Caller::refusal`: UNAUTHENTICATED, ROLE_REQUIRED). Returns
  // the errors of `TargetOf`, of `AuditSink::Write`, and of the store, which is read only for a
  // restricted caller whose roles give it its own plans alone.
  //
  // Waits for the store and for the disk of the audit log; an allowed call that makes a plan, or
  // that changes nothing and is about no plan, waits for neither. Every refusal is in the audit
  // log.
  template <typename Request>
  absl::Status Check(const CallContext& context, absl::string_view method, const Request& request) {
    const AccessRow& row = RowOf(method);
    if (!context.caller()->is_restricted() && !row.changes) return absl::OkStatus();
    absl::StatusOr<CallTarget> target = TargetOf(request);
    if (!target.ok()) return target.status();
    return CheckTarget(context, row, method, *std::move(target));
  }

  // Returns OK if the caller may make the call about something in some cluster, for a request that
  // cannot be decoded, so that nothing says what it is about. Errors are those of `Check`, but for
  // `TargetOf` and the store; only refusals are in the audit log.
  absl::Status CheckUndecoded(const CallContext& context, absl::string_view method);

  // Records in the audit log that the caller is refused for `status`, an error, and returns it; the
  // error of `AuditSink::Write` if that fails. Decides nothing. `PlanCore` calls it for jobs of
  // others.
  absl::Status Refuse(const Caller& caller, const std::string& call_id, absl::string_view method,
                      const Resource& resource, const absl::Status& status);

 private:
  absl::Status CheckTarget(const CallContext& context, const AccessRow& row,
                           absl::string_view method, CallTarget target);

  Store& store_;
  AuditSink& audit_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_CALL_GUARD_H_
