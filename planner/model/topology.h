// The devices of a job: groups of equal nodes and the tiers of links.

#ifndef PARPLAN_PLANNER_MODEL_TOPOLOGY_H_
#define PARPLAN_PLANNER_MODEL_TOPOLOGY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"

namespace parplan {

// Nodes that are interchangeable. Fields as in proto/parplan/v1/topology.proto.
struct NodeGroup {
  std::string node_group_id;
  std::string device_kind;
  int node_count = 0;
  // Empty, or one name per node in rank order.
  std::vector<std::string> node_names;
  int devices_per_node = 0;
  Bytes device_memory;
  Bytes reserved_memory;

  int device_count() const { return node_count * devices_per_node; }
  // Returns the memory of one device that jobs may use.
  Bytes available_memory() const { return device_memory - reserved_memory; }
  friend bool operator==(const NodeGroup&, const NodeGroup&) = default;
};

// One level of the interconnect, fastest first.
struct LinkTier {
  std::string tier_id;
  int reach_device_count = 0;
  friend bool operator==(const LinkTier&, const LinkTier&) = default;
};

// A valid topology. Ranks are numbered group by group, node by node, device by
// device, in the order of `node_groups`. Immutable.
class Topology {
 public:
  // Returns INVALID_ARGUMENT (SPEC_INVALID) naming the field, for example
  // `topology.node_groups[0].devices_per_node`, if a rule of proto/parplan/v1/topology.proto is
  // broken.
  static absl::StatusOr<Topology> Create(std::string cluster, std::vector<NodeGroup> node_groups,
                                         std::vector<LinkTier> link_tiers,
                                         std::string fabric_id = "");

  const std::string& cluster() const { return cluster_; }
  const std::vector<NodeGroup>& node_groups() const { return node_groups_; }
  const std::vector<LinkTier>& link_tiers() const { return link_tiers_; }
  // Name in the library of fabrics; empty for the usual one of the device.
  const std::string& fabric_id() const { return fabric_id_; }

  // Number of devices of all groups.
  int device_count() const { return device_count_; }

  // Lists the names of all nodes in rank order; empty if no group names its nodes.
  std::vector<std::string> NodeNames() const;

  friend bool operator==(const Topology&, const Topology&) = default;

 private:
  Topology() = default;
  std::string cluster_;
  std::vector<NodeGroup> node_groups_;
  std::vector<LinkTier> link_tiers_;
  std::string fabric_id_;
  int device_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_TOPOLOGY_H_
