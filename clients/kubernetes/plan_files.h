// What a volume holds of one plan.

#ifndef PARPLAN_CLIENTS_KUBERNETES_PLAN_FILES_H_
#define PARPLAN_CLIENTS_KUBERNETES_PLAN_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/kubernetes/plan_fetcher.h"
#include "clients/kubernetes/plan_volume.h"

namespace parplan::sidecar {

struct PlanFilesOptions {
  // Where the containers of the pod find the files.
  std::string folder;
  std::string trust_file;
  // This pod's node: by its name, where the plan names nodes, or by its number. Neither is
  // needed where the plan has one node.
  std::string node_name;
  int node_rank = -1;
  // As LaunchOptions.
  std::string master_address;
  int master_port = 0;
};

// Names of files.
inline constexpr char kPlanFile[] = "plan.dsse.json";
inline constexpr char kEnvironmentFile[] = "plan.env";

// The plan (`plan.dsse.json`), the model and the topology it was made for (`model.json`,
// `topology.json`), the rank map (`ranks.json`), what all processes of this node are told
// (`plan.env`), and for each of its devices what its rank is told (`rank-<device>.env`), the
// last two as `export` lines of a shell. INVALID_ARGUMENT (SPEC_INVALID) where the node is not
// one of the plan; the errors of LaunchPlan.
absl::StatusOr<std::vector<VolumeFile>> MakePlanFiles(const FetchedPlan& plan,
                                                      const PlanFilesOptions& options);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_PLAN_FILES_H_
