#include "proto/wire/topology_wire.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/proto/wire/random_values.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

v1::ClusterTopology TwoNodes() {
  v1::ClusterTopology topology;
  topology.set_cluster("lab");
  v1::NodeGroup& group = *topology.add_node_groups();
  group.set_node_group_id("a");
  group.set_device_kind("GPU");
  group.set_node_count(2);
  group.add_node_names("n0");
  group.add_node_names("n1");
  group.set_devices_per_node(8);
  group.set_device_memory_bytes(1000);
  group.set_reserved_memory_bytes(10);
  for (const int reach : {8, 16}) {
    v1::LinkTier& tier = *topology.add_link_tiers();
    tier.set_tier_id("tier-" + std::to_string(reach));
    tier.set_reach_device_count(reach);
  }
  return topology;
}

TEST(TopologyWire, ThereAndBackIsTheSame) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const v1::ClusterTopology message = RandomValues(seed).Topology();
    ASSERT_OK_AND_ASSIGN(const Topology topology, TopologyFromProto(message));
    EXPECT_EQ(TopologyToProto(topology).DebugString(), message.DebugString());
    ASSERT_OK_AND_ASSIGN(const Topology again, TopologyFromProto(TopologyToProto(topology)));
    EXPECT_TRUE(again == topology);
  }
}

TEST(TopologyWire, NamesTheFieldThatBreaksARule) {
  struct Case {
    std::string field;
    std::function<void(v1::ClusterTopology&)> change;
  };
  const auto group = [](v1::ClusterTopology& t) { return t.mutable_node_groups(0); };
  const std::vector<Case> cases = {
      {"cluster", [](auto& t) { t.clear_cluster(); }},
      {"cluster", [](auto& t) { t.set_cluster("Upper"); }},
      {"node_groups", [](auto& t) { t.clear_node_groups(); }},
      {"node_groups[0].node_group_id", [&](auto& t) { group(t)->set_node_group_id("-x"); }},
      {"node_groups[0].device_kind", [&](auto& t) { group(t)->clear_device_kind(); }},
      {"node_groups[0].node_count", [&](auto& t) { group(t)->set_node_count(0); }},
      {"node_groups[0].node_names", [&](auto& t) { group(t)->add_node_names("n2"); }},
      {"node_groups[0].devices_per_node", [&](auto& t) { group(t)->set_devices_per_node(-1); }},
      {"node_groups", [&](auto& t) { group(t)->set_node_count(2'000'000'000); }},
      {"node_groups[0].device_memory_bytes",
       [&](auto& t) { group(t)->set_device_memory_bytes(0); }},
      {"node_groups[0].reserved_memory_bytes",
       [&](auto& t) { group(t)->set_reserved_memory_bytes(-1); }},
      {"link_tiers", [](auto& t) { t.clear_link_tiers(); }},
      {"link_tiers[0].tier_id", [](auto& t) { t.mutable_link_tiers(0)->clear_tier_id(); }},
      {"link_tiers[1].reach_device_count",
       [](auto& t) { t.mutable_link_tiers(1)->set_reach_device_count(8); }},
  };
  ASSERT_OK(TopologyFromProto(TwoNodes()));
  for (const Case& c : cases) {
    v1::ClusterTopology broken = TwoNodes();
    c.change(broken);
    const std::string told = Rejection(TopologyFromProto(broken, "spec.topology").status());
    EXPECT_EQ(told.substr(0, 27 + c.field.size()), "SPEC_INVALID spec.topology." + c.field)
        << broken.DebugString();
  }
}

}  // namespace
}  // namespace parplan
