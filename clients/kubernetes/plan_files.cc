#include "clients/kubernetes/plan_files.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/launch/launch_exports.h"
#include "clients/launch/launch_plan.h"
#include "clients/launch/launch_variables.h"
#include "proto/envelope/envelope_json.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/topology_wire.h"

namespace parplan::sidecar {
namespace {

constexpr char kModelFile[] = "model.json";
constexpr char kTopologyFile[] = "topology.json";
constexpr char kRankMapFile[] = "ranks.json";

absl::StatusOr<int> NodeOf(const LaunchPlan& launch, const PlanFilesOptions& options) {
  const auto node_count = static_cast<int>(launch.nodes().size());
  if (options.node_rank >= node_count) {
    return FieldError(Reason::kSpecInvalid, "--node-rank",
                      absl::StrCat("is ", options.node_rank, "; the plan has ", node_count,
                                   " nodes, which count from 0"));
  }
  if (options.node_rank >= 0) return options.node_rank;
  // A plan without names of nodes knows them as node-0, node-1, ...
  const int named = options.node_name.empty() ? -1 : launch.NodeNamed(options.node_name);
  if (named >= 0) return named;
  if (node_count == 1) return 0;
  return FieldError(Reason::kSpecInvalid, "--node-rank",
                    absl::StrCat("the plan has ", node_count, " nodes and none is called `",
                                 options.node_name, "`; say which of them this is"));
}

}  // namespace

absl::StatusOr<std::vector<VolumeFile>> MakePlanFiles(const FetchedPlan& plan,
                                                      const PlanFilesOptions& options) {
  const auto path = [&](const char* name) { return absl::StrCat(options.folder, "/", name); };
  LaunchOptions launch_options;
  launch_options.master_address = options.master_address;
  launch_options.master_port = options.master_port;
  launch_options.plan_path = path(kPlanFile);
  launch_options.model_path = path(kModelFile);
  launch_options.topology_path = path(kTopologyFile);
  launch_options.rank_map_path = path(kRankMapFile);
  launch_options.trust_path = options.trust_file;
  PARPLAN_ASSIGN_OR_RETURN(
      const LaunchPlan launch,
      LaunchPlan::Create(plan.verified, plan.model, plan.topology, std::move(launch_options)));
  PARPLAN_ASSIGN_OR_RETURN(const int node, NodeOf(launch, options));
  LaunchVariables of_node = launch.VariablesOfNode(node);
  for (auto& variable : ExportVariables(options.exporters, options.folder)) {
    of_node.push_back(std::move(variable));
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::string shared, ShellExports(of_node));
  std::vector<VolumeFile> files = {
      {kPlanFile, EnvelopeToJson(plan.envelope)},
      {kModelFile, ToReadableJson(ModelToProto(plan.model))},
      {kTopologyFile, ToReadableJson(TopologyToProto(plan.topology))},
      {kRankMapFile, launch.RankMapJson()},
      {kEnvironmentFile, shared},
  };
  PARPLAN_ASSIGN_OR_RETURN(std::vector<ExportedFile> exported,
                           ExportToFolders(options.exporters, plan.verified, plan.model));
  for (ExportedFile& file : exported) {
    files.push_back({std::move(file.name), std::move(file.text)});
  }
  const LaunchNode& own = launch.nodes()[node];
  for (int device = 0; device < own.device_count; ++device) {
    PARPLAN_ASSIGN_OR_RETURN(const std::string rank,
                             ShellExports(launch.VariablesOfRank(own.first_rank + device)));
    files.push_back({absl::StrCat("rank-", device, ".env"), absl::StrCat(shared, rank)});
  }
  return files;
}

}  // namespace parplan::sidecar
