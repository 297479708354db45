#include "server/metrics/label.h"

#include "absl/strings/string_view.h"

namespace parplan {

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
