#include "planner/model/topology.h"

#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/model/spec_error.h"

namespace parplan {
namespace {

bool IsClusterId(const std::string& id) {
  if (id.empty() || id.size() > 63 || id.front() == '-') return false;
  for (const char c : id) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && c != '-') return false;
  }
  return true;
}

constexpr char kClusterIdRule[] =
    "must be 1 to 63 lower-case letters, digits or `-`, starting with a letter or digit";

absl::Status CheckNodeGroup(const NodeGroup& group, const std::string& field,
                            std::set<std::string>& node_names) {
  if (!IsClusterId(group.node_group_id)) return SpecError(field + ".node_group_id", kClusterIdRule);
  if (group.device_kind.empty()) return SpecError(field + ".device_kind", "must not be empty");
  if (group.node_count < 1) return SpecError(field + ".node_count", "must be at least 1");
  if (group.devices_per_node < 1)
    return SpecError(field + ".devices_per_node", "must be at least 1");
  if (group.device_memory <= Bytes()) {
    return SpecError(field + ".device_memory_bytes", "must be above 0");
  }
  if (group.reserved_memory < Bytes() || group.reserved_memory >= group.device_memory) {
    return SpecError(field + ".reserved_memory_bytes",
                     "must be at least 0 and below device_memory_bytes");
  }
  if (group.node_names.empty()) return absl::OkStatus();
  if (group.node_names.size() != static_cast<size_t>(group.node_count)) {
    return SpecError(field + ".node_names",
                     absl::StrCat("must be empty or have node_count = ", group.node_count,
                                  " entries, has ", group.node_names.size()));
  }
  for (size_t i = 0; i < group.node_names.size(); ++i) {
    const std::string entry = absl::StrCat(field, ".node_names[", i, "]");
    if (group.node_names[i].empty()) return SpecError(entry, "must not be empty");
    if (!node_names.insert(group.node_names[i]).second) {
      return SpecError(entry, absl::StrCat("`", group.node_names[i], "` occurs twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Topology> Topology::Create(std::string cluster, std::vector<NodeGroup> node_groups,
                                          std::vector<LinkTier> link_tiers, std::string fabric_id) {
  if (!IsClusterId(cluster)) return SpecError("topology.cluster", kClusterIdRule);
  if (node_groups.empty()) return SpecError("topology.node_groups", "must have an entry");
  std::set<std::string> group_ids;
  std::set<std::string> node_names;
  int64_t device_count = 0;
  for (size_t i = 0; i < node_groups.size(); ++i) {
    const std::string field = absl::StrCat("topology.node_groups[", i, "]");
    PARPLAN_RETURN_IF_ERROR(CheckNodeGroup(node_groups[i], field, node_names));
    if (!group_ids.insert(node_groups[i].node_group_id).second) {
      return SpecError(field + ".node_group_id", "occurs twice");
    }
    if (node_groups[i].node_names.empty() != node_groups.front().node_names.empty()) {
      return SpecError(field + ".node_names", "must be given for all node groups or for none");
    }
    device_count += int64_t{node_groups[i].node_count} * node_groups[i].devices_per_node;
    if (device_count > std::numeric_limits<int>::max()) {
      return SpecError(field + ".node_count", "makes too many devices");
    }
  }
  if (link_tiers.empty()) return SpecError("topology.link_tiers", "must have an entry");
  std::set<std::string> tier_ids;
  for (size_t i = 0; i < link_tiers.size(); ++i) {
    const std::string field = absl::StrCat("topology.link_tiers[", i, "]");
    if (!IsClusterId(link_tiers[i].tier_id)) return SpecError(field + ".tier_id", kClusterIdRule);
    if (!tier_ids.insert(link_tiers[i].tier_id).second) {
      return SpecError(field + ".tier_id", "occurs twice");
    }
    const int reach = link_tiers[i].reach_device_count;
    if (reach < 1) return SpecError(field + ".reach_device_count", "must be at least 1");
    if (i > 0 && reach <= link_tiers[i - 1].reach_device_count) {
      return SpecError(field + ".reach_device_count", "must be above that of the tier before");
    }
  }
  if (link_tiers.back().reach_device_count < device_count) {
    return SpecError(
        absl::StrCat("topology.link_tiers[", link_tiers.size() - 1, "].reach_device_count"),
        absl::StrCat("the last tier must reach all ", device_count, " devices"));
  }
  constexpr size_t kLongestFabricId = 63;
  if (fabric_id.size() > kLongestFabricId) {
    return SpecError("topology.fabric_id",
                     absl::StrCat("at most ", kLongestFabricId, " characters"));
  }
  Topology topology;
  topology.fabric_id_ = std::move(fabric_id);
  topology.cluster_ = std::move(cluster);
  int first_rank = 0;
  int first_node = 0;
  for (const NodeGroup& group : node_groups) {
    topology.first_rank_.push_back(first_rank);
    topology.first_node_.push_back(first_node);
    first_rank += group.device_count();
    first_node += group.node_count;
  }
  topology.node_groups_ = std::move(node_groups);
  topology.link_tiers_ = std::move(link_tiers);
  topology.device_count_ = static_cast<int>(device_count);
  return topology;
}

GroupIndex Topology::GroupOfRank(int rank) const {
  int group = 0;
  while (group + 1 < group_count() && rank >= first_rank_[group + 1]) ++group;
  return GroupIndex(group);
}

int Topology::NodeOfRank(int rank) const {
  const int group = GroupOfRank(rank).value();
  return first_node_[group] + (rank - first_rank_[group]) / node_groups_[group].devices_per_node;
}

std::vector<std::string> Topology::NodeNames() const {
  std::vector<std::string> names;
  for (const NodeGroup& group : node_groups_) {
    names.insert(names.end(), group.node_names.begin(), group.node_names.end());
  }
  return names;
}

}  // namespace parplan
