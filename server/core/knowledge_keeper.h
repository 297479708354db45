// Collects what is known about a job's devices: measurements, data sheets and the active
// calibration. `PlanCore` and `ShapeCore` ask it for each question.

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

// The version of everything that the plans of a cluster rest on. While it is the same,
// `KnowledgeKeeper::Find` returns the same.
struct KnowledgeVersion {
  // `ProfileSet::revision` of the cluster (server/store/records.h): grows with each change of its
  // profiles.
  int64_t profile_revision = 0;
  // Name of the active calibration; empty for none.
  std::string calibration;

  // Returns a text for keys; equal texts mean equal versions.
  std::string ToString() const;
  friend bool operator==(const KnowledgeVersion&, const KnowledgeVersion&) = default;
};

// The knowledge about the nodes of one job, which has one node group.
struct JobKnowledge {
  Knowledge knowledge;
  // End of the newest measurement; InfinitePast if nothing was measured.
  absl::Time newest_measurement = absl::InfinitePast();
  // Digests of the group's hardware, empty if that is null, and of `knowledge.calibration`, which
  // is never null: without an active calibration it is the published one inside the program.
  std::string hardware_digest;
  std::string calibration_digest;
};

// Every method may wait for the store's disk or network. Safe to use from any thread.
class KnowledgeKeeper {
 public:
  // REQUIRES, unchecked: both outlive the keeper.
  KnowledgeKeeper(ProfileKeeper& profiles, CalibrationCore& calibrations)
      : profiles_(profiles), calibrations_(calibrations) {}

  // Returns the present version. Reads two rows of the store; the store's UNAVAILABLE, DATA_LOSS
  // and INTERNAL (all STORE_UNAVAILABLE).
  absl::StatusOr<KnowledgeVersion> Version(absl::string_view cluster);

  // Returns what is known about the job's node group under the runtime of `rules`. `version` was
  // read before: the calibration is its, whatever became active since; profiles stored since may be
  // included.
  //
  // INVALID_ARGUMENT (SPEC_INVALID) below `field` for an unknown fabric. FAILED_PRECONDITION
  // (PROFILE_MISSING) if no node of the group's kind was measured, unless `rules` allow estimates
  // and the device is in the library: then the profile is null. DATA_LOSS (STORE_UNAVAILABLE) for a
  // calibration or profile that this server cannot read or that breaks a rule of this release; the
  // store's UNAVAILABLE and INTERNAL (STORE_UNAVAILABLE). REQUIRES: `topology` has one node group;
  // not checked.
  absl::StatusOr<JobKnowledge> Find(const Topology& topology, const KnowledgeVersion& version,
                                    const PlanningRules& rules, absl::string_view field);

 private:
  ProfileKeeper& profiles_;
  CalibrationCore& calibrations_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_KNOWLEDGE_KEEPER_H_
