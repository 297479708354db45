#include "planner/model/topology.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/planner/model/broken_rule.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Arguments of Topology::Create.
struct RawTopology {
  std::string cluster = "lab";
  std::vector<NodeGroup> node_groups;
  std::vector<LinkTier> link_tiers;
};

NodeGroup Group(const std::string& id, std::vector<std::string> node_names) {
  NodeGroup group;
  group.node_group_id = id;
  group.device_kind = "NVIDIA A100-SXM4-40GB";
  group.node_count = 2;
  group.node_names = std::move(node_names);
  group.devices_per_node = 8;
  group.device_memory = Bytes::Of(40'000'000'000);
  group.reserved_memory = Bytes::Of(1'000'000'000);
  return group;
}

// Two groups of two nodes with eight devices each.
RawTopology ValidTopology() {
  return {
      "lab", {Group("a", {"a0", "a1"}), Group("b", {"b0", "b1"})}, {{"nvlink", 8}, {"fabric", 32}}};
}

absl::StatusOr<Topology> Create(const RawTopology& raw) {
  return Topology::Create(raw.cluster, raw.node_groups, raw.link_tiers);
}

TEST(Topology, CountsTheDevicesOfAllGroups) {
  ASSERT_OK_AND_ASSIGN(const Topology topology, Create(ValidTopology()));
  EXPECT_EQ(topology.device_count(), 32);
  EXPECT_EQ(topology.node_groups()[0].device_count(), 16);
  EXPECT_EQ(topology.node_groups()[0].available_memory(), Bytes::Of(39'000'000'000));
}

TEST(Topology, FindsGroupAndNodeOfARank) {
  RawTopology raw = ValidTopology();
  raw.node_groups[1].devices_per_node = 4;
  ASSERT_OK_AND_ASSIGN(const Topology topology, Create(raw));
  for (int rank = 0; rank < 24; ++rank) {
    EXPECT_EQ(topology.GroupOfRank(rank), GroupIndex(rank < 16 ? 0 : 1)) << rank;
    EXPECT_EQ(topology.NodeOfRank(rank), rank < 16 ? rank / 8 : 2 + (rank - 16) / 4) << rank;
  }
}

TEST(Topology, NamesNodesInRankOrder) {
  ASSERT_OK_AND_ASSIGN(const Topology topology, Create(ValidTopology()));
  EXPECT_THAT(topology.NodeNames(), ElementsAre("a0", "a1", "b0", "b1"));
}

TEST(Topology, NeedsNoNodeNames) {
  RawTopology raw = ValidTopology();
  for (NodeGroup& group : raw.node_groups) group.node_names.clear();
  ASSERT_OK_AND_ASSIGN(const Topology topology, Create(raw));
  EXPECT_THAT(topology.NodeNames(), IsEmpty());
}

TEST(Topology, MayHaveLinksThatReachFurtherThanItsDevices) {
  RawTopology raw = ValidTopology();
  raw.link_tiers.back().reach_device_count = 1024;
  EXPECT_OK(Create(raw));
}

TEST(Topology, TakesClusterNamesUpToSixtyThreeCharacters) {
  RawTopology raw = ValidTopology();
  raw.cluster = "0-" + std::string(61, 'a');
  EXPECT_OK(Create(raw));
}

using BrokenTopology = BrokenRule<RawTopology>;

class TopologyRules : public testing::TestWithParam<BrokenTopology> {};

TEST_P(TopologyRules, AreEnforcedAndNamed) {
  RawTopology raw = ValidTopology();
  GetParam().break_it(raw);
  EXPECT_EQ(Rejection(Create(raw).status()), "SPEC_INVALID " + GetParam().field);
}

INSTANTIATE_TEST_SUITE_P(
    All, TopologyRules,
    testing::ValuesIn(std::vector<BrokenTopology>{
        {"NoCluster", "topology.cluster", [](RawTopology& t) { t.cluster = ""; }},
        {"UpperCaseCluster", "topology.cluster", [](RawTopology& t) { t.cluster = "Lab"; }},
        {"ClusterStartsWithDash", "topology.cluster", [](RawTopology& t) { t.cluster = "-a"; }},
        {"LongCluster", "topology.cluster",
         [](RawTopology& t) { t.cluster = std::string(64, 'a'); }},
        {"NoGroups", "topology.node_groups", [](RawTopology& t) { t.node_groups.clear(); }},
        {"NoGroupId", "topology.node_groups[1].node_group_id",
         [](RawTopology& t) { t.node_groups[1].node_group_id = ""; }},
        {"GroupIdTwice", "topology.node_groups[1].node_group_id",
         [](RawTopology& t) { t.node_groups[1].node_group_id = "a"; }},
        {"NoDeviceKind", "topology.node_groups[0].device_kind",
         [](RawTopology& t) { t.node_groups[0].device_kind = ""; }},
        {"NoNodes", "topology.node_groups[0].node_count",
         [](RawTopology& t) { t.node_groups[0].node_count = 0; }},
        {"TooManyDevices", "topology.node_groups[0].node_count",
         [](RawTopology& t) {
           t.node_groups[0].node_count = std::numeric_limits<int>::max();
           t.node_groups[0].node_names.clear();
           t.node_groups[1].node_names.clear();
         }},
        {"TooFewNames", "topology.node_groups[1].node_names",
         [](RawTopology& t) { t.node_groups[1].node_names.pop_back(); }},
        {"EmptyName", "topology.node_groups[1].node_names[1]",
         [](RawTopology& t) { t.node_groups[1].node_names[1] = ""; }},
        {"NameTwice", "topology.node_groups[0].node_names[1]",
         [](RawTopology& t) { t.node_groups[0].node_names[1] = "a0"; }},
        {"NameInTwoGroups", "topology.node_groups[1].node_names[0]",
         [](RawTopology& t) { t.node_groups[1].node_names[0] = "a0"; }},
        {"NamesInOneGroupOnly", "topology.node_groups[1].node_names",
         [](RawTopology& t) { t.node_groups[1].node_names.clear(); }},
        {"NoDevices", "topology.node_groups[1].devices_per_node",
         [](RawTopology& t) { t.node_groups[1].devices_per_node = 0; }},
        {"NoMemory", "topology.node_groups[1].device_memory_bytes",
         [](RawTopology& t) { t.node_groups[1].device_memory = Bytes(); }},
        {"NegativeReserve", "topology.node_groups[0].reserved_memory_bytes",
         [](RawTopology& t) { t.node_groups[0].reserved_memory = Bytes::Of(-1); }},
        {"AllReserved", "topology.node_groups[0].reserved_memory_bytes",
         [](RawTopology& t) { t.node_groups[0].reserved_memory = t.node_groups[0].device_memory; }},
        {"NoTiers", "topology.link_tiers", [](RawTopology& t) { t.link_tiers.clear(); }},
        {"NoTierId", "topology.link_tiers[0].tier_id",
         [](RawTopology& t) { t.link_tiers[0].tier_id = ""; }},
        {"TierIdTwice", "topology.link_tiers[1].tier_id",
         [](RawTopology& t) { t.link_tiers[1].tier_id = "nvlink"; }},
        {"NoReach", "topology.link_tiers[0].reach_device_count",
         [](RawTopology& t) { t.link_tiers[0].reach_device_count = 0; }},
        {"ReachDoesNotRise", "topology.link_tiers[1].reach_device_count",
         [](RawTopology& t) { t.link_tiers[1].reach_device_count = 8; }},
        {"LastTierFallsShort", "topology.link_tiers[1].reach_device_count",
         [](RawTopology& t) { t.link_tiers[1].reach_device_count = 31; }},
    }),
    [](const testing::TestParamInfo<BrokenTopology>& info) { return info.param.name; });

}  // namespace
}  // namespace parplan
