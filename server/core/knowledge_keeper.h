// Brings together what is known of a job's devices besides the question:
// measurements, data sheets and the active calibration.

#ifndef PARPLAN_SERVER_CORE_KNOWLEDGE_KEEPER_H_
#define PARPLAN_SERVER_CORE_KNOWLEDGE_KEEPER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "planner/model/planning_problem.h"
#include "planner/model/topology.h"
#include "server/core/calibration_core.h"
#include "server/core/profile_keeper.h"

namespace parplan {

// What the plans of a cluster rest on at one moment. While it is the same, so is
// what `KnowledgeKeeper::Find` gives.
struct KnowledgeVersion {
  int64_t profile_revision = 0;
  // Name of the active calibration; empty for none.
  std::string calibration;

  // For keys: equal texts, equal versions.
  std::string ToString() const;
  friend bool operator==(const KnowledgeVersion&, const KnowledgeVersion&) = default;
};

struct JobKnowledge {
  Knowledge knowledge;
  // The end of the newest measurement; InfinitePast when nothing was measured.
  absl::Time newest_measurement = absl::InfinitePast();
  // Of `knowledge.hardware` and `knowledge.calibration`; empty where they are null.
  std::string hardware_digest;
  std::string calibration_digest;
};

// Every method may wait for the store's disk. Safe to use from any thread.
class KnowledgeKeeper {
 public:
  // Both outlive the keeper.
  KnowledgeKeeper(ProfileKeeper& profiles, CalibrationCore& calibrations)
      : profiles_(profiles), calibrations_(calibrations) {}

  // Cheap. The store's errors.
  absl::StatusOr<KnowledgeVersion> Version(absl::string_view cluster);

  // What is known of the job's node group. `version` was read before: its
  // calibration is taken, whatever became active since, and profiles that came
  // since may be in it.
  //
  // INVALID_ARGUMENT (SPEC_INVALID) below `field` for an unknown fabric.
  // FAILED_PRECONDITION (PROFILE_MISSING) when no such node was measured, unless
  // `allow_estimates` is set and the device is in the library: then the profile is
  // null. REQUIRES: one node group.
  absl::StatusOr<JobKnowledge> Find(const Topology& topology, const KnowledgeVersion& version,
                                    bool allow_estimates, absl::string_view field);

 private:
  ProfileKeeper& profiles_;
  CalibrationCore& calibrations_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_KNOWLEDGE_KEEPER_H_
