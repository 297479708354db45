#include "server/metrics/label.h"

#include "absl/strings/string_view.h"

namespace parplan {

std::string MethodLabel(Method method) {
  switch (method) {
    case Method::kUploadProfile:
      return "UploadProfile";
    case Method::kGetProfile:
      return "GetProfile";
    case Method::kListProfiles:
      return "ListProfiles";
    case Method::kDeleteProfile:
      return "DeleteProfile";
    case Method::kShapePlan:
      return "ShapePlan";
    case Method::kCreatePlan:
      return "CreatePlan";
    case Method::kSearchPlan:
      return "SearchPlan";
    case Method::kGetPlan:
      return "GetPlan";
    case Method::kListPlans:
      return "ListPlans";
    case Method::kVerifyPlan:
      return "VerifyPlan";
    case Method::kGetCapabilities:
      return "GetCapabilities";
    case Method::kCreateExecution:
      return "CreateExecution";
    case Method::kReportMetrics:
      return "ReportMetrics";
    case Method::kCompleteExecution:
      return "CompleteExecution";
    case Method::kFailExecution:
      return "FailExecution";
    case Method::kGetExecution:
      return "GetExecution";
    case Method::kListExecutions:
      return "ListExecutions";
    case Method::kUploadCalibration:
      return "UploadCalibration";
    case Method::kGetCalibration:
      return "GetCalibration";
    case Method::kListCalibrations:
      return "ListCalibrations";
    case Method::kActivateCalibration:
      return "ActivateCalibration";
    case Method::kGetActiveCalibration:
      return "GetActiveCalibration";
    case Method::kConnectAgent:
      return "ConnectAgent";
    case Method::kListAgents:
      return "ListAgents";
  }
  return "other";
}

std::string PhaseLabel(int phase) {
  static constexpr const char* kNames[kPhaseCount + 1] = {"other",
                                                          "forward",
                                                          "backward",
                                                          "recompute",
                                                          "tensor_parallel",
                                                          "sharded_data_parallel",
                                                          "context_parallel",
                                                          "expert_parallel",
                                                          "resharding",
                                                          "pipeline",
                                                          "gradient_sync",
                                                          "optimizer",
                                                          "idle"};
  return kNames[phase >= 1 && phase <= kPhaseCount ? phase : 0];
}

std::string MemoryItemLabel(int kind) {
  static constexpr const char* kNames[kMemoryItemCount + 1] = {
      "other",       "parameters",    "gradients", "optimizer_states",  "activations",
      "checkpoints", "transient",     "context",   "master_parameters", "gathered_parameters",
      "logits",      "communicators", "workspace", "fragmentation"};
  return kNames[kind >= 1 && kind <= kMemoryItemCount ? kind : 0];
}

std::string StatusCodeLabel(absl::StatusCode code) { return absl::StatusCodeToString(code); }

std::string ReasonLabel(Reason reason) {
  const absl::string_view name = ReasonName(reason);
  return std::string(name.data(), name.size());
}

std::string CacheKindLabel(CacheKind cache) {
  switch (cache) {
    case CacheKind::kPlan:
      return "plan";
    case CacheKind::kResult:
      return "result";
    case CacheKind::kShape:
      return "shape";
    case CacheKind::kSnapshot:
      return "snapshot";
  }
  return "other";
}

std::string SearchOutcomeLabel(SearchOutcome outcome) {
  switch (outcome) {
    case SearchOutcome::kOptimal:
      return "optimal";
    case SearchOutcome::kFeasible:
      return "feasible";
    case SearchOutcome::kNothingFits:
      return "nothing_fits";
    case SearchOutcome::kStoppedEmpty:
      return "stopped_empty";
    case SearchOutcome::kRefused:
      return "refused";
    case SearchOutcome::kCheckFailed:
      return "check_failed";
  }
  return "other";
}

std::string VerifyOutcomeLabel(VerifyOutcome outcome) {
  switch (outcome) {
    case VerifyOutcome::kValid:
      return "valid";
    case VerifyOutcome::kBadSignature:
      return "bad_signature";
    case VerifyOutcome::kMalformed:
      return "malformed";
    case VerifyOutcome::kExpired:
      return "expired";
    case VerifyOutcome::kWrongAudience:
      return "wrong_audience";
    case VerifyOutcome::kWrongTopology:
      return "wrong_topology";
  }
  return "other";
}

std::string LeaseOutcomeLabel(LeaseOutcome outcome) {
  switch (outcome) {
    case LeaseOutcome::kReturned:
      return "returned";
    case LeaseOutcome::kGivenUp:
      return "given_up";
    case LeaseOutcome::kExpired:
      return "expired";
    case LeaseOutcome::kAgentLost:
      return "agent_lost";
    case LeaseOutcome::kDraining:
      return "draining";
  }
  return "other";
}

std::string LeaseRefusalLabel(LeaseRefusalKind kind) {
  switch (kind) {
    case LeaseRefusalKind::kNodeAbsent:
      return "node_absent";
    case LeaseRefusalKind::kNodeLent:
      return "node_lent";
    case LeaseRefusalKind::kNodeBusy:
      return "node_busy";
  }
  return "other";
}

std::string StoreOperationLabel(StoreOperation operation) {
  switch (operation) {
    case StoreOperation::kPutProfile:
      return "put_profile";
    case StoreOperation::kGetProfile:
      return "get_profile";
    case StoreOperation::kListProfiles:
      return "list_profiles";
    case StoreOperation::kDeleteProfile:
      return "delete_profile";
    case StoreOperation::kSnapshotProfiles:
      return "snapshot_profiles";
    case StoreOperation::kProfileRevision:
      return "profile_revision";
    case StoreOperation::kProfileRevisions:
      return "profile_revisions";
    case StoreOperation::kPutCalibration:
      return "put_calibration";
    case StoreOperation::kGetCalibration:
      return "get_calibration";
    case StoreOperation::kListCalibrations:
      return "list_calibrations";
    case StoreOperation::kActivateCalibration:
      return "activate_calibration";
    case StoreOperation::kActiveCalibration:
      return "active_calibration";
    case StoreOperation::kPutPlan:
      return "put_plan";
    case StoreOperation::kGetPlan:
      return "get_plan";
    case StoreOperation::kFindPlanByKey:
      return "find_plan_by_key";
    case StoreOperation::kFindPlanByRequestId:
      return "find_plan_by_request_id";
    case StoreOperation::kFindPlanByAnswer:
      return "find_plan_by_answer";
    case StoreOperation::kListPlans:
      return "list_plans";
    case StoreOperation::kCountPlans:
      return "count_plans";
    case StoreOperation::kDeleteExpiredPlans:
      return "delete_expired_plans";
    case StoreOperation::kCreateExecution:
      return "create_execution";
    case StoreOperation::kGetExecution:
      return "get_execution";
    case StoreOperation::kListExecutions:
      return "list_executions";
    case StoreOperation::kSetExecutionState:
      return "set_execution_state";
    case StoreOperation::kFailSilentExecutions:
      return "fail_silent_executions";
    case StoreOperation::kAppendWindows:
      return "append_windows";
    case StoreOperation::kWindowCount:
      return "window_count";
    case StoreOperation::kListWindows:
      return "list_windows";
  }
  return "other";
}

std::string LinkReachLabel(LinkReach reach) {
  return reach == LinkReach::kWithinNode ? "within_node" : "across_nodes";
}

std::string CollectiveLabel(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kSendReceive:
      return "send_receive";
    case Collective::kBroadcast:
      return "broadcast";
  }
  return "other";
}

}  // namespace parplan
