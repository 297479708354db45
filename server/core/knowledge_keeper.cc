#include "server/core/knowledge_keeper.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/hardware_wire.h"
#include "proto/wire/known_hardware.h"
#include "proto/wire/published_calibration.h"

namespace parplan {
namespace {

// Returns `missing` with a hint whether the library of devices allows estimates.
absl::Status WithAdvice(const absl::Status& missing, const ErrorDetail& detail,
                        const NodeGroup& group, const Hardware* hardware) {
  const std::string advice =
      hardware == nullptr
          ? absl::StrCat("; `", group.device_kind,
                         "` is not in the library of devices (docs/hardware.md) either, so nothing "
                         "can be estimated")
          : absl::StrCat(
                ", or set options.allow_estimates for an estimate from the data sheets of `",
                hardware->device.device_id, "`");
  return MakeError(missing.code(), detail.reason, absl::StrCat(missing.message(), advice),
                   detail.metadata);
}

}  // namespace

std::string KnowledgeVersion::ToString() const {
  return absl::StrCat(profile_revision, " ", calibration);
}

absl::StatusOr<KnowledgeVersion> KnowledgeKeeper::Version(absl::string_view cluster) {
  KnowledgeVersion version;
  PARPLAN_ASSIGN_OR_RETURN(version.profile_revision, profiles_.Revision(cluster));
  PARPLAN_ASSIGN_OR_RETURN(version.calibration, calibrations_.ActiveName(cluster));
  return version;
}

absl::StatusOr<JobKnowledge> KnowledgeKeeper::Find(const Topology& topology,
                                                   const KnowledgeVersion& version,
                                                   const PlanningRules& rules,
                                                   absl::string_view field) {
  JobKnowledge known;
  GroupKnowledge& known_group = known.knowledge.groups.emplace_back();
  PARPLAN_ASSIGN_OR_RETURN(known_group.hardware, KnownHardware(topology, field));
  const Hardware* const hardware = known_group.hardware.get();
  if (hardware != nullptr) known.hardware_digest = HardwareDigest(*hardware);

  PARPLAN_ASSIGN_OR_RETURN(known.knowledge.calibration, calibrations_.Find(version.calibration));
  if (known.knowledge.calibration == nullptr) {
    known.knowledge.calibration = PublishedCalibration();
  }
  known.calibration_digest = known.knowledge.calibration->content().digest;

  const NodeGroup& group = topology.node_groups().front();
  absl::StatusOr<SnapshotHandle> snapshot = profiles_.Snapshot(
      topology.cluster(), group.device_kind, group.devices_per_node, rules.runtime.runtime_id);
  if (snapshot.ok()) {
    known_group.profile = std::move(snapshot->snapshot);
    known.newest_measurement = snapshot->newest_measurement;
    return known;
  }
  const std::optional<ErrorDetail> detail = GetErrorDetail(snapshot.status());
  const bool nothing_measured = detail.has_value() && detail->reason == Reason::kProfileMissing;
  if (!nothing_measured) return snapshot.status();
  if (!rules.allow_estimates || hardware == nullptr) {
    return WithAdvice(snapshot.status(), *detail, group, hardware);
  }
  return known;
}

}  // namespace parplan
