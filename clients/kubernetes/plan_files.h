// Makes the files of one plan for the shared volume. `parplan-sidecar init` and `PlanKeeper` make
// them, and write them by `PlanVolume::Write`.

#ifndef PARPLAN_CLIENTS_KUBERNETES_PLAN_FILES_H_
#define PARPLAN_CLIENTS_KUBERNETES_PLAN_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/kubernetes/plan_fetcher.h"
#include "clients/kubernetes/plan_volume.h"
#include "exports/exporters.h"

namespace parplan::sidecar {

// Facts that the files must state and the plan does not have.
struct PlanFilesOptions {
  // The folder in which the containers of the pod find the files, and the path of the trust bundle,
  // as `plan.env` names them to the job.
  std::string folder;
  std::string trust_file;
  // This pod's node: its name if the plan names nodes, else its number from 0, below 0 for none;
  // the number counts if both are given. Neither is needed if the plan has one node.
  std::string node_name;
  int node_rank = -1;
  // The members of `LaunchOptions` with these names.
  std::string master_address;
  int master_port = 0;
  // The programs whose files are made too (`ReadExportTargets`); none is null.
  std::vector<const PlanExporter*> exporters;
};

// Names of files in the folder.
inline constexpr char kPlanFile[] = "plan.dsse.json";
inline constexpr char kEnvironmentFile[] = "plan.env";

// Makes the plan (`plan.dsse.json`), the model and the topology it was made for (`model.json`,
// `topology.json`), the rank map (`ranks.json`), the environment of all processes of this node
// (`plan.env`), and for each of its devices, from 0, that and the environment of its rank
// (`rank-<device>.env`), the last two as `export` lines of a shell. The files of each exporter lie
// in a folder of its target, whose path `plan.env` has as PARPLAN_EXPORT_{TARGET}, in upper case
// and with `_` for `-` (`ExportVariables`). Writes nothing.
//
// INVALID_ARGUMENT (SPEC_INVALID) naming --node-rank if the node is not one of the plan (for a plan
// of one node, only if `node_rank` is above 0); the errors of LaunchPlan, of ExportToFolders, and
// of ShellExports (clients/launch).
absl::StatusOr<std::vector<VolumeFile>> MakePlanFiles(const FetchedPlan& plan,
                                                      const PlanFilesOptions& options);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_PLAN_FILES_H_
