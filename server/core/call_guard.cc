#include "server/core/call_guard.h"

#include <utility>

#include "base/status_macros.h"
#include "proto/wire/resource_name.h"
#include "server/core/request_rules.h"
#include "server/store/records.h"

namespace parplan {
namespace {

absl::StatusOr<CallTarget> ClusterTarget(const std::string& parent) {
  PARPLAN_ASSIGN_OR_RETURN(const ClusterName name, ClusterName::Parse(parent));
  CallTarget target;
  target.resource.name = parent;
  target.resource.cluster = name.cluster;
  return target;
}

absl::StatusOr<CallTarget> CalibrationTarget(const std::string& calibration) {
  PARPLAN_ASSIGN_OR_RETURN(const CalibrationName name, CalibrationName::Parse(calibration));
  CallTarget target;
  target.resource.name = calibration;
  target.resource.cluster = name.cluster;
  return target;
}

CallTarget NodeTarget(const NodeName& node, const std::string& name) {
  CallTarget target;
  target.resource.name = name;
  target.resource.cluster = node.cluster;
  target.resource.node = node.node;
  return target;
}

absl::StatusOr<CallTarget> ProfileTarget(const std::string& profile) {
  PARPLAN_ASSIGN_OR_RETURN(const ProfileName name, ProfileName::Parse(profile));
  return NodeTarget(name.parent(), profile);
}

absl::StatusOr<CallTarget> PlanTarget(const std::string& plan, absl::string_view field) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanName name, PlanName::Parse(plan, field));
  CallTarget target;
  target.resource.name = plan;
  target.resource.cluster = name.cluster;
  target.plan = plan;
  return target;
}

absl::StatusOr<CallTarget> ExecutionTarget(const std::string& execution, absl::string_view field) {
  PARPLAN_ASSIGN_OR_RETURN(const ExecutionName name, ExecutionName::Parse(execution, field));
  CallTarget target;
  target.resource.name = execution;
  target.resource.cluster = name.cluster;
  target.plan = name.parent().ToString();
  return target;
}

}  // namespace

absl::StatusOr<CallTarget> TargetOf(const v1::ListAgentsRequest& request) {
  return ClusterTarget(request.parent());
}

absl::StatusOr<CallTarget> TargetOf(const v1::UploadCalibrationRequest& request) {
  return ClusterTarget(request.parent());
}

absl::StatusOr<CallTarget> TargetOf(const v1::GetCalibrationRequest& request) {
  return CalibrationTarget(request.name());
}

absl::StatusOr<CallTarget> TargetOf(const v1::ListCalibrationsRequest& request) {
  return ClusterTarget(request.parent());
}

absl::StatusOr<CallTarget> TargetOf(const v1::ActivateCalibrationRequest& request) {
  return ClusterTarget(request.parent());
}

absl::StatusOr<CallTarget> TargetOf(const v1::GetActiveCalibrationRequest& request) {
  return ClusterTarget(request.parent());
}

absl::StatusOr<CallTarget> TargetOf(const v1::CreateExecutionRequest& request) {
  return PlanTarget(request.parent(), "parent");
}

absl::StatusOr<CallTarget> TargetOf(const v1::CompleteExecutionRequest& request) {
  return ExecutionTarget(request.name(), "name");
}

absl::StatusOr<CallTarget> TargetOf(const v1::FailExecutionRequest& request) {
  return ExecutionTarget(request.name(), "name");
}

absl::StatusOr<CallTarget> TargetOf(const v1::GetExecutionRequest& request) {
  return ExecutionTarget(request.name(), "name");
}

absl::StatusOr<CallTarget> TargetOf(const v1::ListExecutionsRequest& request) {
  return PlanTarget(request.parent(), "parent");
}

absl::StatusOr<CallTarget> TargetOf(const v1::ReportMetricsRequest& request) {
  return ExecutionTarget(request.execution(), "execution");
}

absl::StatusOr<CallTarget> TargetOf(const v1::ShapePlanRequest& request) {
  return ClusterTarget(request.parent());
}

absl::StatusOr<CallTarget> TargetOf(const v1::CreatePlanRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(CallTarget target, ClusterTarget(request.parent()));
  target.kind = CallTarget::Kind::kNewPlan;
  // Checked here as well, because a refusal is written to the audit log with it.
  PARPLAN_RETURN_IF_ERROR(CheckCharacterCount(request.job_id(), kMaxJobIdCharacters, "job_id"));
  target.resource.job_id = request.job_id();
  return target;
}

absl::StatusOr<CallTarget> TargetOf(const v1::GetPlanRequest& request) {
  return PlanTarget(request.name(), "name");
}

absl::StatusOr<CallTarget> TargetOf(const v1::ListPlansRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(CallTarget target, ClusterTarget(request.parent()));
  target.kind = CallTarget::Kind::kPlanList;
  return target;
}

absl::StatusOr<CallTarget> TargetOf(const v1::VerifyPlanRequest& /*request*/) {
  return CallTarget();
}

absl::StatusOr<CallTarget> TargetOf(const v1::ExportPlanRequest& request) {
  // A plan that the caller brings is converted and not looked up.
  if (request.source_case() != v1::ExportPlanRequest::kName) return CallTarget();
  return PlanTarget(request.name(), "name");
}

absl::StatusOr<CallTarget> TargetOf(const v1::GetCapabilitiesRequest& /*request*/) {
  return CallTarget();
}

absl::StatusOr<CallTarget> TargetOf(const v1::UploadHeader& header) {
  PARPLAN_ASSIGN_OR_RETURN(const NodeName node, NodeName::Parse(header.parent(), "header.parent"));
  return NodeTarget(node, header.parent());
}

absl::StatusOr<CallTarget> TargetOf(const v1::GetProfileRequest& request) {
  return ProfileTarget(request.name());
}

absl::StatusOr<CallTarget> TargetOf(const v1::ListProfilesRequest& request) {
  if (const absl::StatusOr<NodeName> node = NodeName::Parse(request.parent()); node.ok()) {
    return NodeTarget(*node, request.parent());
  }
  return ClusterTarget(request.parent());
}

absl::StatusOr<CallTarget> TargetOf(const v1::DeleteProfileRequest& request) {
  return ProfileTarget(request.name());
}

absl::StatusOr<CallTarget> TargetOf(const v1::AgentHello& hello) {
  PARPLAN_ASSIGN_OR_RETURN(const NodeName node, NodeName::Parse(hello.node(), "hello.node"));
  return NodeTarget(node, hello.node());
}

absl::Status CallGuard::Refuse(const Caller& caller, const std::string& call_id,
                               absl::string_view method, const Resource& resource,
                               const absl::Status& status) {
  AuditRecord record;
  record.event = AuditRecord::Event::kRefusal;
  record.identity = caller.identity().text();
  record.role = caller.RolesIn(resource.cluster);
  record.method = std::string(method);
  record.resource = resource.name;
  record.job_id = resource.job_id;
  record.request_id = call_id;
  PARPLAN_RETURN_IF_ERROR(audit_.Write(record));
  return status;
}

absl::Status CallGuard::CheckUndecoded(const CallContext& context, absl::string_view method) {
  const Caller& caller = *context.caller();
  const absl::Status allowed = caller.Check(method, {});
  return allowed.ok() ? allowed : Refuse(caller, context.request_id(), method, {}, allowed);
}

absl::Status CallGuard::CheckTarget(const CallContext& context, const AccessRow& row,
                                    absl::string_view method, CallTarget target) {
  const Caller& caller = *context.caller();
  Resource& resource = target.resource;
  // The job that the caller named; that of a plan of others stays out of the audit log.
  const std::string asked_job = resource.job_id;
  bool is_allowed_list = false;
  switch (target.kind) {
    case CallTarget::Kind::kNewPlan:
      resource.owner = caller.owner();
      break;
    case CallTarget::Kind::kPlanList:
      is_allowed_list = caller.AccessTo(method, resource.cluster) != Access::kNone;
      break;
    case CallTarget::Kind::kExisting: {
      if (target.plan.empty() || caller.AccessTo(method, resource.cluster) != Access::kOwn) break;
      const absl::StatusOr<PlanRecord> plan = store_.GetPlan(target.plan);
      if (plan.ok()) {
        resource.owner = plan->owner;
        resource.job_id = plan->job_id;
      } else if (plan.status().code() != absl::StatusCode::kNotFound) {
        return plan.status();
      }
      break;
    }
  }
  is_allowed_list = is_allowed_list && caller.refusal().ok();
  const absl::Status allowed = is_allowed_list ? absl::OkStatus() : caller.Check(method, resource);
  if (!allowed.ok()) {
    resource.job_id = asked_job;
    return Refuse(caller, context.request_id(), method, resource, allowed);
  }
  if (!row.changes || target.kind == CallTarget::Kind::kNewPlan) return absl::OkStatus();
  AuditRecord record;
  record.event = AuditRecord::Event::kCall;
  record.identity = caller.identity().text();
  record.role = caller.AllowingRole(method, resource);
  record.method = std::string(method);
  record.resource = resource.name;
  record.job_id = resource.job_id;
  record.plan = target.plan;
  record.request_id = context.request_id();
  return audit_.Write(record);
}

}  // namespace parplan
