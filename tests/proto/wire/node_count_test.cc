#include "proto/wire/node_count.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "proto/wire/topology_wire.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using Tiers = std::vector<std::pair<std::string, int>>;

// Nodes of 8 devices.
v1::ClusterTopology TopologyOf(int node_count, const Tiers& tiers) {
  v1::ClusterTopology topology;
  topology.set_cluster("lab");
  v1::NodeGroup& group = *topology.add_node_groups();
  group.set_node_group_id("nodes");
  group.set_device_kind("GPU");
  group.set_node_count(node_count);
  group.set_devices_per_node(8);
  group.set_device_memory_bytes(int64_t{1} << 36);
  for (const auto& [id, reach] : tiers) {
    v1::LinkTier& tier = *topology.add_link_tiers();
    tier.set_tier_id(id);
    tier.set_reach_device_count(reach);
  }
  return topology;
}

Tiers TiersOf(const v1::ClusterTopology& topology) {
  Tiers tiers;
  for (const v1::LinkTier& tier : topology.link_tiers()) {
    tiers.emplace_back(tier.tier_id(), tier.reach_device_count());
  }
  return tiers;
}

TEST(SetNodeCount, TheLastTierReachesAllDevices) {
  v1::ClusterTopology topology = TopologyOf(2, {{"nvlink", 8}, {"switch", 16}});
  ASSERT_OK(SetNodeCount(5, "--nodes", &topology));
  EXPECT_EQ(topology.node_groups(0).node_count(), 5);
  EXPECT_THAT(TiersOf(topology), ElementsAre(Pair("nvlink", 8), Pair("switch", 40)));
  EXPECT_OK(TopologyFromProto(topology).status());
  ASSERT_OK(SetNodeCount(1, "--nodes", &topology));
  EXPECT_EQ(topology.node_groups(0).node_count(), 1);
  EXPECT_OK(TopologyFromProto(topology).status());
}

TEST(SetNodeCount, NodesThatWereAloneGetATierBetweenThem) {
  v1::ClusterTopology topology = TopologyOf(1, {{"nvlink", 8}});
  ASSERT_OK(SetNodeCount(3, "--nodes", &topology));
  EXPECT_THAT(TiersOf(topology), ElementsAre(Pair("nvlink", 8), Pair("fabric", 24)));
  EXPECT_OK(TopologyFromProto(topology).status());
}

// Its only tier may be one that no larger cluster has, such as NVLink over two nodes.
TEST(SetNodeCount, AnOnlyTierOverNodesGetsOneBehindIt) {
  v1::ClusterTopology topology = TopologyOf(2, {{"nvlink", 16}});
  ASSERT_OK(SetNodeCount(4, "--nodes", &topology));
  EXPECT_THAT(TiersOf(topology), ElementsAre(Pair("nvlink", 16), Pair("fabric", 32)));
  EXPECT_OK(TopologyFromProto(topology).status());
  // Fewer nodes are all within its reach, and no tier is made up where there is none.
  topology = TopologyOf(2, {{"nvlink", 16}});
  ASSERT_OK(SetNodeCount(1, "--nodes", &topology));
  EXPECT_THAT(TiersOf(topology), ElementsAre(Pair("nvlink", 16)));
  topology = TopologyOf(2, {});
  ASSERT_OK(SetNodeCount(4, "--nodes", &topology));
  EXPECT_EQ(topology.node_groups(0).node_count(), 4);
  EXPECT_EQ(topology.link_tiers_size(), 0);
}

TEST(SetNodeCount, TheNewTierHasANameOfItsOwn) {
  v1::ClusterTopology topology = TopologyOf(2, {{"fabric", 16}});
  ASSERT_OK(SetNodeCount(4, "--nodes", &topology));
  EXPECT_THAT(TiersOf(topology), ElementsAre(Pair("fabric", 16), Pair("fabric-2", 32)));
  EXPECT_OK(TopologyFromProto(topology).status());
  topology = TopologyOf(1, {{"fabric-2", 4}, {"fabric", 8}});
  ASSERT_OK(SetNodeCount(2, "--nodes", &topology));
  EXPECT_THAT(TiersOf(topology),
              ElementsAre(Pair("fabric-2", 4), Pair("fabric", 8), Pair("fabric-3", 16)));
  EXPECT_OK(TopologyFromProto(topology).status());
}

TEST(SetNodeCount, RefusesWhatHasNoSingleNumberOfNodes) {
  v1::ClusterTopology topology = TopologyOf(2, {{"nvlink", 16}});
  EXPECT_THAT(SetNodeCount(1 << 30, "--nodes", &topology),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--nodes: makes too many")));
  EXPECT_EQ(topology.node_groups(0).node_count(), 2);
  *topology.add_node_groups() = topology.node_groups(0);
  EXPECT_THAT(SetNodeCount(2, "--nodes", &topology),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one node group")));
  topology.mutable_node_groups()->RemoveLast();
  topology.mutable_node_groups(0)->add_node_names("n0");
  EXPECT_THAT(SetNodeCount(2, "--nodes", &topology),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("names no nodes")));
  v1::ClusterTopology empty;
  EXPECT_FALSE(SetNodeCount(2, "--nodes", &empty).ok());
}

}  // namespace
}  // namespace parplan
