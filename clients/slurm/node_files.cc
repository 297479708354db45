#include "clients/slurm/node_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "clients/launch/launch_exports.h"
#include "clients/launch/launch_plan.h"
#include "parplan/v1/model.pb.h"
#include "parplan/v1/topology.pb.h"
#include "proto/envelope/envelope_json.h"
#include "proto/envelope/verifier.h"
#include "proto/wire/digest.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/topology_wire.h"

namespace parplan::slurm {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kFolderMode = 0755;
constexpr mode_t kFileMode = 0644;

absl::Status FileError(const std::string& path, const std::error_code& error) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", error.message()));
}

// Makes the folders above `folder`, readable by all. The parent of `folder` must belong to this
// user and be writable by no other, who could otherwise replace a job's files.
absl::Status MakeParents(const std::string& folder) {
  const fs::path parent = fs::path(folder).parent_path();
  std::error_code error;
  std::vector<fs::path> missing;
  for (fs::path path = parent; !path.empty() && !fs::exists(path, error);
       path = path.parent_path()) {
    missing.push_back(path);
  }
  fs::create_directories(parent, error);
  if (error) return FileError(parent, error);
  // The daemon's umask may have removed permissions.
  for (const fs::path& path : missing) ::chmod(path.c_str(), kFolderMode);
  struct stat facts = {};
  if (::lstat(parent.c_str(), &facts) != 0) {
    return FileError(parent, std::error_code(errno, std::generic_category()));
  }
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid() || (facts.st_mode & 022) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("node_dir: ", parent.string(),
                     " must be a folder of this user to which no other user may write"));
  }
  return absl::OkStatus();
}

std::string OneLine(std::string text) {
  for (char& letter : text) {
    if (absl::ascii_iscntrl(letter)) letter = ' ';
  }
  return text;
}

}  // namespace

absl::StatusOr<NodeFiles> MakeNodeFiles(const JobBundle& bundle, const TrustBundle& trust,
                                        const NodeOfJob& node, absl::Time now) {
  if (!bundle.without_plan.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(std::string line,
                             VariableLines({{"PARPLAN_NO_PLAN", OneLine(bundle.without_plan)}}));
    return NodeFiles{{"node.env", std::move(line)}};
  }
  PARPLAN_ASSIGN_OR_RETURN(const v1::SignedPlan envelope, EnvelopeFromJson(bundle.envelope));
  v1::ModelSpec model_message;
  PARPLAN_RETURN_IF_ERROR(ParseJson(bundle.model, "model.json", &model_message));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(model_message));
  v1::ClusterTopology topology_message;
  PARPLAN_RETURN_IF_ERROR(ParseJson(bundle.topology, "topology.json", &topology_message));
  PARPLAN_ASSIGN_OR_RETURN(const Topology topology, TopologyFromProto(topology_message));
  PARPLAN_ASSIGN_OR_RETURN(const VerifiedPlan verified,
                           PlanVerifier(trust).Verify(envelope,
                                                      {.cluster = node.cluster,
                                                       .job_id = node.job_id,
                                                       .node_name = node.node_name,
                                                       .topology_digest = TopologyDigest(topology)},
                                                      now));
  const auto path = [&](const char* name) { return absl::StrCat(node.folder, "/", name); };
  PARPLAN_ASSIGN_OR_RETURN(const LaunchPlan launch,
                           LaunchPlan::Create(verified, model, topology,
                                              {.node_names = bundle.node_names,
                                               .master_address = bundle.master_address,
                                               .master_port = bundle.master_port,
                                               .plan_path = path("plan.dsse.json"),
                                               .model_path = path("model.json"),
                                               .topology_path = path("topology.json"),
                                               .trust_path = node.trust_path,
                                               .rank_map_path = path("ranks.json")}));
  const int index = launch.NodeNamed(node.node_name);
  if (index < 0) {
    return MakeError(absl::StatusCode::kPermissionDenied, Reason::kAudienceMismatch,
                     absl::StrCat("the plan names no node ", node.node_name));
  }
  NodeFiles files = {{"plan.dsse.json", bundle.envelope},
                     {"model.json", bundle.model},
                     {"topology.json", bundle.topology},
                     {"ranks.json", launch.RankMapJson()}};
  LaunchVariables of_node = launch.VariablesOfNode(index);
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<const PlanExporter*> exporters,
                           ReadExportTargets(node.exports, "--plan-export"));
  for (auto& variable : ExportVariables(exporters, node.folder)) {
    of_node.push_back(std::move(variable));
  }
  PARPLAN_ASSIGN_OR_RETURN(files["node.env"], VariableLines(of_node));
  PARPLAN_ASSIGN_OR_RETURN(std::vector<ExportedFile> exported,
                           ExportToFolders(exporters, verified, model));
  for (ExportedFile& file : exported) files[file.name] = std::move(file.text);
  const LaunchNode& place = launch.nodes()[index];
  for (int k = 0; k < place.device_count; ++k) {
    PARPLAN_ASSIGN_OR_RETURN(files[absl::StrCat("rank-", k, ".env")],
                             VariableLines(launch.VariablesOfRank(place.first_rank + k)));
  }
  return files;
}

NodeFiles RefusalFiles(const std::string& why) { return {{"refused", OneLine(why) + "\n"}}; }

absl::Status WriteNodeFiles(const std::string& folder, const NodeFiles& files) {
  const std::string staged = folder + ".new";
  PARPLAN_RETURN_IF_ERROR(MakeParents(folder));
  std::error_code error;
  fs::remove_all(staged, error);
  fs::create_directory(staged, error);
  if (error) return FileError(staged, error);
  // The daemon's umask may have removed permissions.
  ::chmod(staged.c_str(), kFolderMode);
  for (const auto& [name, text] : files) {
    const std::string path = absl::StrCat(staged, "/", name);
    if (const size_t slash = name.find('/'); slash != std::string::npos) {
      const std::string inner = absl::StrCat(staged, "/", name.substr(0, slash));
      fs::create_directory(inner, error);
      if (error || ::chmod(inner.c_str(), kFolderMode) != 0) return FileError(inner, error);
    }
    const absl::Status written =
        AtomicWrite(path, text, {.mode = kFileMode, .ignores_umask = true});
    if (!written.ok()) return absl::UnavailableError(written.message());
  }
  // Replaces a folder that is left of a run before a crash of the node.
  if (::renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(staged, error);
    return error ? FileError(staged, error) : absl::OkStatus();
  }
  // There is no such folder, or the file system cannot exchange two: then there is none for a
  // moment.
  fs::remove_all(folder, error);
  if (error) return FileError(folder, error);
  fs::rename(staged, folder, error);
  if (error) return FileError(folder, error);
  return absl::OkStatus();
}

absl::Status RemoveNodeFiles(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return error ? FileError(folder, error) : absl::OkStatus();
}

}  // namespace parplan::slurm
