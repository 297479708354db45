#include "executor/apply/checked_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/digest.h"
#include "proto/wire/plan_wire.h"

namespace parplan {
namespace {

// Share of a device's memory by which it may fall short of the topology; see CheckDevice.
constexpr double kMemorySlack = 0.02;

absl::Status Mismatch(Reason reason, const std::string& field, const std::string& why) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason, absl::StrCat(field, ": ", why),
                   {{"field", field}});
}

}  // namespace

absl::StatusOr<CheckedPlan> CheckedPlan::Create(const VerifiedPlan& verified,
                                                const ModelSpec& model, const Topology& topology) {
  const v1::PlanPayload& payload = verified.payload();
  CheckedPlan checked(model, topology);
  checked.name_ = payload.plan();
  checked.model_digest_ = ModelDigest(model);
  if (payload.model_digest() != checked.model_digest_) {
    return Mismatch(
        Reason::kSpecInvalid, "model_digest",
        absl::StrCat("the plan was made for another model (", payload.model_digest(), " is not ",
                     checked.model_digest_, "); give the model it was asked for"));
  }
  const std::string topology_digest = TopologyDigest(topology);
  if (payload.topology_digest() != topology_digest) {
    return Mismatch(Reason::kTopologyMismatch, "topology_digest",
                    absl::StrCat("the plan was made for other devices (", payload.topology_digest(),
                                 " is not ", topology_digest, "); ask for a plan for these"));
  }
  PARPLAN_ASSIGN_OR_RETURN(checked.plan_, PlanFromPayload(payload));
  PARPLAN_ASSIGN_OR_RETURN(checked.prediction_, PredictionFromProto(payload.prediction()));
  if (checked.plan_.device_count != topology.device_count()) {
    return Mismatch(Reason::kTopologyMismatch, "device_count",
                    absl::StrCat("the plan is for ", checked.plan_.device_count,
                                 " devices, the topology has ", topology.device_count()));
  }
  checked.generation_ = payload.generation();
  checked.expire_time_ = absl::FromUnixSeconds(payload.expire_time().seconds());
  // The program of any rank checks the whole plan.
  PARPLAN_RETURN_IF_ERROR(checked.ProgramOf(0).status());
  return checked;
}

absl::Status CheckedPlan::CheckDevice(int rank, int world_size, const DeviceFacts& device) const {
  if (world_size != plan_.device_count) {
    return Mismatch(Reason::kTopologyMismatch, "device_count",
                    absl::StrCat("the plan is for ", plan_.device_count, " ranks, not for ",
                                 world_size, "; start as many as that"));
  }
  int first_rank = 0;
  for (size_t index = 0; index < topology_.node_groups().size(); ++index) {
    const NodeGroup& group = topology_.node_groups()[index];
    if (rank >= first_rank + group.device_count()) {
      first_rank += group.device_count();
      continue;
    }
    const std::string field = absl::StrCat("node_groups[", index, "].");
    if (device.kind != group.device_kind) {
      return Mismatch(Reason::kTopologyMismatch, field + "device_kind",
                      absl::StrCat("rank ", rank, " is on a \"", device.kind,
                                   "\", the plan is for \"", group.device_kind, "\""));
    }
    const auto needed =
        static_cast<double>(group.available_memory().count()) * (1.0 - kMemorySlack);
    if (static_cast<double>(device.memory.count()) < needed) {
      return Mismatch(
          Reason::kTopologyMismatch, field + "device_memory_bytes",
          absl::StrCat("the device of rank ", rank, " has ", device.memory.count(),
                       " bytes, the plan counts on ", group.available_memory().count()));
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace parplan
