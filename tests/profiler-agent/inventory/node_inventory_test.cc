#include "profiler-agent/inventory/node_inventory.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/device/backend/device_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

InventoryOptions FakeNode(const std::string& nvml) {
  InventoryOptions options;
  options.host.topology_file = absl::StrCat(PARPLAN_MACHINES, "/two_sockets.xml");
  options.gpus.library = absl::StrCat(PARPLAN_FAKE_NVML, "/libnvml_", nvml, ".so");
  options.sysfs_root = MakeTestFolder();
  return options;
}

TopologyOptions Gpus(int count = 0) {
  TopologyOptions options;
  options.cluster = "c";
  options.device_type = DeviceType::kCuda;
  options.device_count = count;
  return options;
}

TEST(ToTopology, GivesGpusWithNvlinkOneTier) {
  ASSERT_OK_AND_ASSIGN(const NodeInventory inventory, ReadInventory(FakeNode("eight")));
  TopologyOptions options = Gpus();
  options.node = "n1";
  ASSERT_OK_AND_ASSIGN(const Topology topology, ToTopology(inventory, options));
  ASSERT_EQ(topology.node_groups().size(), 1);
  EXPECT_EQ(topology.node_groups()[0].device_kind, "NVIDIA H200");
  EXPECT_EQ(topology.node_groups()[0].devices_per_node, 8);
  EXPECT_EQ(topology.node_groups()[0].device_memory, Bytes::Of(int64_t{143771} << 20));
  EXPECT_THAT(topology.NodeNames(), ElementsAre("n1"));
  EXPECT_THAT(topology.link_tiers(), ElementsAre(LinkTier{"nvlink", 8}));
}

// Every GPU has NVLinks there, but only to its neighbour.
TEST(ToTopology, NvlinkReachesAsFarAsTheDriverSays) {
  ASSERT_OK_AND_ASSIGN(NodeInventory inventory, ReadInventory(FakeNode("bridges")));
  EXPECT_THAT(ToTopology(inventory, Gpus())->link_tiers(),
              ElementsAre(LinkTier{"nvlink", 2}, LinkTier{"pcie", 4}, LinkTier{"socket", 8}));
  EXPECT_THAT(ToTopology(inventory, Gpus(2))->link_tiers(), ElementsAre(LinkTier{"nvlink", 2}));
  // An old driver says only that there are links.
  inventory.gpus.nvlink_peers.clear();
  EXPECT_THAT(ToTopology(inventory, Gpus())->link_tiers(), ElementsAre(LinkTier{"nvlink", 8}));
}

TEST(ToTopology, GivesGpusOfTwoSocketsTwoTiersWithoutNvlink) {
  ASSERT_OK_AND_ASSIGN(NodeInventory inventory, ReadInventory(FakeNode("eight")));
  for (GpuDevice& gpu : inventory.gpus.devices) gpu.nvlink_count = 0;
  inventory.gpus.nvlink_peers.clear();
  EXPECT_THAT(ToTopology(inventory, Gpus())->link_tiers(),
              ElementsAre(LinkTier{"pcie", 4}, LinkTier{"socket", 8}));
  EXPECT_THAT(ToTopology(inventory, Gpus(4))->link_tiers(), ElementsAre(LinkTier{"pcie", 4}));
  // A driver that reports nothing.
  for (auto& row : inventory.gpus.common_ancestors) row.assign(8, -1);
  EXPECT_THAT(ToTopology(inventory, Gpus())->link_tiers(), ElementsAre(LinkTier{"socket", 8}));
}

TEST(ToTopology, MakesADeviceOfEachCore) {
  ASSERT_OK_AND_ASSIGN(const NodeInventory inventory, ReadInventory(FakeNode("no_driver")));
  TopologyOptions options;
  ASSERT_OK_AND_ASSIGN(const Topology all, ToTopology(inventory, options));
  EXPECT_EQ(all.node_groups()[0].device_kind, "CPU Intel(R) Xeon(R)  Platinum 8480C");
  EXPECT_EQ(all.node_groups()[0].devices_per_node, 8);
  EXPECT_EQ(all.node_groups()[0].device_memory, Bytes::Of(int64_t{48} << 30));
  EXPECT_THAT(all.link_tiers(), ElementsAre(LinkTier{"memory", 8}));
  // More ranks than hardware threads share them.
  options.device_count = 32;
  EXPECT_EQ(ToTopology(inventory, options)->node_groups()[0].device_memory,
            Bytes::Of(int64_t{24} << 30));
}

// Otherwise the executor would refuse plans for the topology that the agent reported.
TEST(ToTopology, OfThisMachineIsThatOfTheCpuBackEnd) {
  ASSERT_OK_AND_ASSIGN(const NodeInventory inventory, ReadInventory());
  TopologyOptions options;
  options.device_count = 1;
  ASSERT_OK_AND_ASSIGN(const Topology topology, ToTopology(inventory, options));
  ASSERT_OK_AND_ASSIGN(const DeviceFacts facts, MakeCpuBackend()->Describe(0));
  EXPECT_EQ(topology.node_groups()[0].device_kind, facts.kind);
  EXPECT_EQ(topology.node_groups()[0].device_memory, facts.memory);
}

TEST(ToTopology, SaysWhyGpusCannotBeUsed) {
  const auto expect = [](const std::string& nvml, int count, const std::string& words) {
    ASSERT_OK_AND_ASSIGN(const NodeInventory inventory, ReadInventory(FakeNode(nvml)));
    EXPECT_THAT(ToTopology(inventory, Gpus(count)),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(words)));
  };
  expect("no_driver", 0, "no_driver");
  expect("mixed", 0, "GPU 1 is a NVIDIA H100 80GB HBM3");
  expect("eight", 9, "the node has 8 GPUs, not the 9");
  InventoryOptions reversed = FakeNode("mixed");
  reversed.gpus.visible_devices = "1,0";
  ASSERT_OK_AND_ASSIGN(const NodeInventory inventory, ReadInventory(reversed));
  EXPECT_THAT(ToTopology(inventory, Gpus()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("GPU 0 is a NVIDIA H200"),
                             HasSubstr("GPU 1 a NVIDIA H100 80GB HBM3"))));
}

TEST(InventoryFingerprint, ChangesWithWhatDecidesSpeedOnly) {
  ASSERT_OK_AND_ASSIGN(const NodeInventory inventory, ReadInventory(FakeNode("eight")));
  const std::string fingerprint = InventoryFingerprint(inventory);
  EXPECT_EQ(fingerprint.size(), 64);
  EXPECT_EQ(InventoryFingerprint(*ReadInventory(FakeNode("eight"))), fingerprint);

  NodeInventory busy = inventory;
  busy.gpus.states[0].utilization_percent = 90;
  busy.gpus.states[0].processes = {{1, 2}};
  EXPECT_EQ(InventoryFingerprint(busy), fingerprint);

  const std::vector<std::function<void(NodeInventory&)>> changes = {
      [](NodeInventory& n) { n.host.cpu_model = "other"; },
      [](NodeInventory& n) { n.host.memory_bytes += 1; },
      [](NodeInventory& n) { n.host.numa_nodes.pop_back(); },
      [](NodeInventory& n) { n.gpus.driver_version = "590.1"; },
      [](NodeInventory& n) { n.gpus.devices[7].uuid = "GPU-other"; },
      [](NodeInventory& n) { n.gpus.devices[7].nvlink_count = 17; },
      [](NodeInventory& n) { n.gpus.common_ancestors[0][1] = 20; },
      [](NodeInventory& n) { n.gpus.nvlink_peers[0][1] = false; },
      [](NodeInventory& n) {
        n.networks.rdma_ports.push_back({"mlx5_0", 1, "InfiniBand", 400, true, 0});
      },
      [](NodeInventory& n) {
        n.networks.interfaces.push_back({"eth0", 1000, true, 0});
      },
  };
  std::set<std::string> seen = {fingerprint};
  for (size_t i = 0; i < changes.size(); ++i) {
    NodeInventory changed = inventory;
    changes[i](changed);
    EXPECT_TRUE(seen.insert(InventoryFingerprint(changed)).second) << i;
  }
}

}  // namespace
}  // namespace parplan
