// The devices of a job: groups of equal nodes and the tiers of links. proto/wire/topology_wire.h
// makes it from messages.

#ifndef PARPLAN_PLANNER_MODEL_TOPOLOGY_H_
#define PARPLAN_PLANNER_MODEL_TOPOLOGY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"

namespace parplan {

// The index of a node group in `Topology::node_groups()`. A type of its own, so that it is not
// mistaken for the index of a layer definition or a stage.
class GroupIndex {
 public:
  // The first group, or the group of that index; a negative one is not refused.
  constexpr GroupIndex() = default;
  constexpr explicit GroupIndex(int value) : value_(value) {}
  constexpr int value() const { return value_; }
  friend bool operator==(GroupIndex, GroupIndex) = default;

 private:
  int value_ = 0;
};
inline constexpr GroupIndex kFirstGroup{0};

// Nodes that are interchangeable. `Topology::Create` checks the rules that the members state.
struct NodeGroup {
  // Unique in the topology: 1 to 63 lower-case letters, digits and `-`, the first no `-`.
  std::string node_group_id;
  // Model of the device as its driver reports it, for example `NVIDIA A100-SXM4-40GB`. Profiles are
  // matched by it, letter by letter.
  std::string device_kind;
  // At least 1.
  int node_count = 0;
  // Empty, or one name per node in rank order.
  std::vector<std::string> node_names;
  // At least 1.
  int devices_per_node = 0;
  // Memory of one device, above 0, and the part of it that jobs may not use, such as that of other
  // processes: at least 0 and below `device_memory`.
  Bytes device_memory;
  Bytes reserved_memory;

  // Returns the devices of all nodes of the group.
  int device_count() const { return node_count * devices_per_node; }
  // Returns the memory of one device that jobs may use.
  Bytes available_memory() const { return device_memory - reserved_memory; }
  friend bool operator==(const NodeGroup&, const NodeGroup&) = default;
};

// One level of the interconnect. A topology has them from the fastest to the slowest.
struct LinkTier {
  // For example `nvlink`, `pcie`, `switch`, `fabric`: unique, with the letters of
  // `NodeGroup::node_group_id`.
  std::string tier_id;
  // Number of devices that reach each other within this tier: 8 for NVLink in a node of 8 devices.
  // At least 1, and larger for each further tier; the last one reaches all devices.
  int reach_device_count = 0;
  friend bool operator==(const LinkTier&, const LinkTier&) = default;
};

// A valid topology. Ranks are numbered group by group, node by node, device by
// device, in the order of `node_groups`. Immutable.
class Topology {
 public:
  // Returns INVALID_ARGUMENT (SPEC_INVALID) naming the field, for example
  // `topology.node_groups[0].devices_per_node`, if a rule of proto/parplan/v1/topology.proto is
  // broken: those that the members above and the accessors below state, no group or tier, two nodes
  // of one name in the whole topology, names for some groups only, more devices than an `int`
  // counts, or a `fabric_id` of more than 63 characters. Whether a library has that fabric is not
  // checked.
  static absl::StatusOr<Topology> Create(std::string cluster, std::vector<NodeGroup> node_groups,
                                         std::vector<LinkTier> link_tiers,
                                         std::string fabric_id = "");

  // Identifier of the cluster, with the letters of `NodeGroup::node_group_id`.
  const std::string& cluster() const { return cluster_; }
  // At least one group, in rank order. An index is below `group_count()`, which is not checked.
  const std::vector<NodeGroup>& node_groups() const { return node_groups_; }
  const NodeGroup& node_group(GroupIndex group) const { return node_groups_[group.value()]; }
  int group_count() const { return static_cast<int>(node_groups_.size()); }
  // At least one tier, from the fastest to the slowest.
  const std::vector<LinkTier>& link_tiers() const { return link_tiers_; }
  // Name in the library of fabrics; empty for the usual one of the device.
  const std::string& fabric_id() const { return fabric_id_; }

  // Number of devices of all groups.
  int device_count() const { return device_count_; }

  // Return the group of a rank, and its node, counted from 0 over all groups. Both are as fast as
  // the groups are few. Ranks past the last device count as devices of further nodes of the last
  // group. REQUIRES: rank >= 0, which is not checked.
  GroupIndex GroupOfRank(int rank) const;
  int NodeOfRank(int rank) const;

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
  // [node group] its first rank and its first node.
  std::vector<int> first_rank_;
  std::vector<int> first_node_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_TOPOLOGY_H_
