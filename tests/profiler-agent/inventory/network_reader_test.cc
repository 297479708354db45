#include "profiler-agent/inventory/network_reader.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::IsEmpty;

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(ReadNetworks, ListsPortsAndInterfaces) {
  const std::string root = MakeTestFolder();
  const std::string rdma = root + "/class/infiniband/";
  Write(rdma + "mlx5_1/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  Write(rdma + "mlx5_1/ports/1/state", "1: DOWN\n");
  Write(rdma + "mlx5_1/ports/1/link_layer", "Ethernet\n");
  Write(rdma + "mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  Write(rdma + "mlx5_0/ports/1/state", "4: ACTIVE\n");
  Write(rdma + "mlx5_0/ports/1/link_layer", "InfiniBand\n");
  Write(rdma + "mlx5_0/device/numa_node", "1\n");
  const std::string net = root + "/class/net/";
  Write(net + "lo/operstate", "unknown\n");
  Write(net + "eth0/operstate", "up\n");
  Write(net + "eth0/speed", "25000\n");
  Write(net + "eth0/device/numa_node", "0\n");
  Write(net + "eth1/operstate", "down\n");
  Write(net + "eth1/speed", "-1\n");
  Write(net + "eth1/device/vendor", "0x15b3\n");

  const NetworkFacts facts = ReadNetworks(root);
  ASSERT_EQ(facts.rdma_ports.size(), 2);
  EXPECT_EQ(facts.rdma_ports[0].device, "mlx5_0");
  EXPECT_EQ(facts.rdma_ports[0].port, 1);
  EXPECT_EQ(facts.rdma_ports[0].gigabits_per_second, 400.0);
  EXPECT_TRUE(facts.rdma_ports[0].is_active);
  EXPECT_EQ(facts.rdma_ports[0].link_layer, "InfiniBand");
  EXPECT_EQ(facts.rdma_ports[0].numa_node, 1);
  EXPECT_EQ(facts.rdma_ports[1].device, "mlx5_1");
  EXPECT_FALSE(facts.rdma_ports[1].is_active);
  EXPECT_EQ(facts.rdma_ports[1].numa_node, -1);
  ASSERT_EQ(facts.interfaces.size(), 2);
  EXPECT_EQ(facts.interfaces[0].name, "eth0");
  EXPECT_EQ(facts.interfaces[0].megabits_per_second, 25000);
  EXPECT_TRUE(facts.interfaces[0].is_up);
  EXPECT_EQ(facts.interfaces[1].megabits_per_second, 0);
  EXPECT_FALSE(facts.interfaces[1].is_up);
}

TEST(ReadNetworks, OfANodeWithoutAreNone) {
  const NetworkFacts facts = ReadNetworks(MakeTestFolder());
  EXPECT_THAT(facts.rdma_ports, IsEmpty());
  EXPECT_THAT(facts.interfaces, IsEmpty());
}

}  // namespace
}  // namespace parplan
