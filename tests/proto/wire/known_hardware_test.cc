#include "proto/wire/known_hardware.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

Topology MakeTopology(const std::string& device_kind, int node_count, int devices_per_node,
                      const std::string& fabric_id = "") {
  NodeGroup group;
  group.node_group_id = "all";
  group.device_kind = device_kind;
  group.node_count = node_count;
  group.devices_per_node = devices_per_node;
  group.device_memory = Bytes::Of(int64_t{80} << 30);
  std::vector<LinkTier> tiers = {{"node", devices_per_node}};
  if (node_count > 1) tiers.push_back({"fabric", node_count * devices_per_node});
  absl::StatusOr<Topology> topology = Topology::Create("lab", {group}, tiers, fabric_id);
  EXPECT_OK(topology);
  return *std::move(topology);
}

TEST(KnownHardware, IsTheDeviceUnderTheNameOfItsDriverWithItsUsualLinks) {
  const HardwareLibrary& library = HardwareLibrary::BuiltIn();
  ASSERT_OK_AND_ASSIGN(const auto known,
                       KnownHardware(MakeTopology("NVIDIA A100-SXM4-80GB", 2, 8)));
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->device, *library.FindDevice("NVIDIA A100-SXM4-80GB"));
  EXPECT_EQ(known->fabric, *library.DefaultFabricFor(known->device.device_id, 8, 16));
}

TEST(KnownHardware, HasTheLinksTheTopologyNames) {
  ASSERT_OK_AND_ASSIGN(const auto known, KnownHardware(MakeTopology("NVIDIA A100-SXM4-80GB", 2, 8,
                                                                    "nvlink-3+ethernet-1x25")));
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->fabric.fabric_id, "nvlink-3+ethernet-1x25");
}

TEST(KnownHardware, IsNullForADeviceThatNoLibraryHas) {
  ASSERT_OK_AND_ASSIGN(const auto known, KnownHardware(MakeTopology("abacus", 1, 8)));
  EXPECT_EQ(known, nullptr);
}

TEST(KnownHardware, AnUnknownFabricIsRefusedWhateverTheDevice) {
  for (const char* device_kind : {"NVIDIA A100-SXM4-80GB", "abacus"}) {
    EXPECT_EQ(
        Rejection(KnownHardware(MakeTopology(device_kind, 1, 8, "string+tin-can"), "spec.topology")
                      .status()),
        "SPEC_INVALID spec.topology.fabric_id");
  }
}

}  // namespace
}  // namespace parplan
