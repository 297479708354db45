#include "proto/wire/topology_wire.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "planner/model/planning_problem.h"
#include "proto/wire/field_path.h"

namespace parplan {

absl::StatusOr<Topology> TopologyFromProto(const v1::ClusterTopology& message,
                                           absl::string_view field) {
  std::vector<NodeGroup> node_groups;
  node_groups.reserve(message.node_groups_size());
  int64_t device_count = 0;
  for (const v1::NodeGroup& group : message.node_groups()) {
    if (group.node_count() > 0 && group.devices_per_node() > 0) {
      device_count += int64_t{group.node_count()} * group.devices_per_node();
    }
    if (device_count > kMaxDeviceCount) {
      return FieldError(Reason::kSpecInvalid, JoinPath(field, "node_groups"),
                        absl::StrCat("at most ", kMaxDeviceCount, " devices in all groups"));
    }
    node_groups.push_back(NodeGroup{
        .node_group_id = group.node_group_id(),
        .device_kind = group.device_kind(),
        .node_count = group.node_count(),
        .node_names = {group.node_names().begin(), group.node_names().end()},
        .devices_per_node = group.devices_per_node(),
        .device_memory = Bytes::Of(group.device_memory_bytes()),
        .reserved_memory = Bytes::Of(group.reserved_memory_bytes()),
    });
  }
  std::vector<LinkTier> link_tiers;
  link_tiers.reserve(message.link_tiers_size());
  for (const v1::LinkTier& tier : message.link_tiers()) {
    link_tiers.push_back(LinkTier{tier.tier_id(), tier.reach_device_count()});
  }
  absl::StatusOr<Topology> topology = Topology::Create(message.cluster(), std::move(node_groups),
                                                       std::move(link_tiers), message.fabric_id());
  if (!topology.ok()) {
    return MoveFieldError(topology.status(), "topology", field, Reason::kSpecInvalid);
  }
  return topology;
}

v1::ClusterTopology TopologyToProto(const Topology& topology) {
  v1::ClusterTopology message;
  message.set_cluster(topology.cluster());
  for (const NodeGroup& group : topology.node_groups()) {
    v1::NodeGroup& entry = *message.add_node_groups();
    entry.set_node_group_id(group.node_group_id);
    entry.set_device_kind(group.device_kind);
    entry.set_node_count(group.node_count);
    for (const std::string& name : group.node_names) entry.add_node_names(name);
    entry.set_devices_per_node(group.devices_per_node);
    entry.set_device_memory_bytes(group.device_memory.count());
    entry.set_reserved_memory_bytes(group.reserved_memory.count());
  }
  for (const LinkTier& tier : topology.link_tiers()) {
    v1::LinkTier& entry = *message.add_link_tiers();
    entry.set_tier_id(tier.tier_id);
    entry.set_reach_device_count(tier.reach_device_count);
  }
  message.set_fabric_id(topology.fabric_id());
  return message;
}

}  // namespace parplan
