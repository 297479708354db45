#include "clients/slurm/job_question.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/launch/launch_exports.h"
#include "planner/model/search_space.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/topology_wire.h"

namespace parplan::slurm {
namespace {

constexpr int64_t kMaxDevicesOfNode = 1 << 16;
constexpr absl::Duration kLongestJob = absl::Hours(24 * 3650);
// Administrators may let a job run on.
constexpr absl::Duration kBeyondTimeLimit = absl::Hours(24);

absl::Status WrongNodes(absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid, "nodes of the job", rule);
}

// Returns the devices of a node that the planner knows.
absl::StatusOr<GresCount> DevicesOf(const SlurmConfig& config, const JobNode& node) {
  std::vector<GresCount> known;
  for (const GresCount& gres : node.gres) {
    if (gres.count > 0 && config.devices.contains(gres.name)) known.push_back(gres);
  }
  const auto list = [](const std::vector<GresCount>& all) {
    return absl::StrJoin(all, ", ", [](std::string* out, const GresCount& gres) {
      absl::StrAppend(out, gres.name, ":", gres.count);
    });
  };
  if (known.empty()) {
    return WrongNodes(absl::StrCat(
        node.name, " gives the job no devices the planner knows (",
        node.gres.empty() ? "no GRES" : list(node.gres),
        "); ask for some with --gres or --gpus-per-node, or have them named in `devices`"));
  }
  if (known.size() > 1 || known.front().count > kMaxDevicesOfNode) {
    return WrongNodes(absl::StrCat(node.name, " gives the job ", list(known),
                                   "; a plan is for devices of one kind, ask for one"));
  }
  return known.front();
}

// A UUID (RFC 9562, version 8) that follows from what it names.
std::string UuidOf(absl::string_view text) {
  std::string digits = Sha256Hex(text).substr(0, 32);
  digits[12] = '8';
  digits[16] = '8';
  return absl::StrCat(digits.substr(0, 8), "-", digits.substr(8, 4), "-", digits.substr(12, 4), "-",
                      digits.substr(16, 4), "-", digits.substr(20));
}

// Returns the target that the job names, or, if it names neither target nor space, that of the one
// program whose files it wants: a plan of another space would be refused by the exporter.
absl::StatusOr<std::string> TargetOf(const JobWishes& wishes) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<const PlanExporter*> exporters,
                           ReadExportTargets(wishes.exports, "--plan-export"));
  if (!wishes.target.empty() || !wishes.space.empty() || exporters.size() != 1) {
    return wishes.target;
  }
  const std::string name(exporters.front()->target);
  return FindTarget(name) != nullptr ? name : std::string();
}

}  // namespace

absl::StatusOr<v1::ClusterTopology> TopologyOfJob(const SlurmConfig& config,
                                                  const std::vector<JobNode>& nodes) {
  if (nodes.empty()) return WrongNodes("there are none");
  PARPLAN_ASSIGN_OR_RETURN(const GresCount devices, DevicesOf(config, nodes.front()));
  const DeviceTemplate& device = config.devices.at(devices.name);
  v1::ClusterTopology topology;
  topology.set_cluster(config.cluster);
  topology.set_fabric_id(device.fabric_id);
  v1::NodeGroup& group = *topology.add_node_groups();
  group.set_node_group_id("job");
  group.set_device_kind(device.device_kind);
  group.set_node_count(static_cast<int>(nodes.size()));
  group.set_devices_per_node(static_cast<int>(devices.count));
  group.set_device_memory_bytes(device.device_memory_bytes);
  group.set_reserved_memory_bytes(device.reserved_memory_bytes);
  for (const JobNode& node : nodes) {
    PARPLAN_ASSIGN_OR_RETURN(const GresCount others, DevicesOf(config, node));
    if (others != devices) {
      return WrongNodes(absl::StrCat(
          nodes.front().name, " gives the job ", devices.name, ":", devices.count, " but ",
          node.name, " ", others.name, ":", others.count,
          "; a plan is for equal nodes: ask for one kind with --gpus-per-node=TYPE:COUNT, "
          "--constraint or a partition of equal nodes"));
    }
    group.add_node_names(node.name);
  }
  const int64_t device_count = devices.count * static_cast<int64_t>(nodes.size());
  if (device_count > INT32_MAX) return WrongNodes("they have too many devices");
  if (devices.count > 1 || nodes.size() == 1) {
    v1::LinkTier& tier = *topology.add_link_tiers();
    tier.set_tier_id(device.node_tier);
    tier.set_reach_device_count(static_cast<int32_t>(devices.count));
  }
  if (nodes.size() > 1) {
    v1::LinkTier& tier = *topology.add_link_tiers();
    tier.set_tier_id(device.fabric_tier);
    tier.set_reach_device_count(static_cast<int32_t>(device_count));
  }
  return topology;
}

absl::StatusOr<v1::CreatePlanRequest> QuestionOfJob(const SlurmConfig& config,
                                                    const JobFacts& job) {
  const JobWishes& wishes = job.wishes;
  if (wishes.model.empty()) {
    return FieldError(Reason::kSpecInvalid, "--plan-model", "is missing; --plan=auto needs it");
  }
  if (wishes.global_batch_size < 1) {
    return FieldError(Reason::kSpecInvalid, "--plan-batch", "is missing; --plan=auto needs it");
  }
  v1::CreatePlanRequest request;
  v1::PlanSpec& spec = *request.mutable_spec();
  PARPLAN_RETURN_IF_ERROR(ParseJson(wishes.model, "--plan-model", spec.mutable_model()));
  PARPLAN_RETURN_IF_ERROR(ModelFromProto(spec.model()).status());
  PARPLAN_ASSIGN_OR_RETURN(*spec.mutable_topology(), TopologyOfJob(config, job.nodes));
  // An error from here on is a fault of the configuration, not of the job.
  if (const absl::Status usable = TopologyFromProto(spec.topology()).status(); !usable.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("`devices` in the configuration: ", usable.message()));
  }
  spec.set_global_batch_size(wishes.global_batch_size);
  v1::PlanningOptions& options = *spec.mutable_options();
  options.set_planner(wishes.planner);
  options.set_runtime_id(wishes.runtime);
  options.set_space(wishes.space);
  PARPLAN_ASSIGN_OR_RETURN(const std::string target, TargetOf(wishes));
  options.set_target(target);
  options.set_allow_estimates(config.allow_estimates);
  *options.mutable_search_time_limit() = DurationToProto(config.search_time);
  request.set_parent(absl::StrCat("clusters/", config.cluster));
  request.set_job_id(job.job_id);
  // Steps verify the plan whenever they begin. The server cuts what is longer than it allows.
  *request.mutable_time_to_live() =
      DurationToProto(std::min(job.time_limit, kLongestJob) + kBeyondTimeLimit);
  request.set_request_id(UuidOf(absl::StrCat(
      "parplan slurm request 1\n", config.cluster, "\n", job.job_id, "\n", job.restart_count, "\n",
      job.submit_time, "\n", absl::StrJoin(spec.topology().node_groups(0).node_names(), ","))));
  return request;
}

}  // namespace parplan::slurm
