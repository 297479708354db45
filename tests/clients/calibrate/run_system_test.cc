#include "clients/calibrate/run_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace parplan::accuracy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(AdaptersIn, ReadsCountRateAndKind) {
  struct Case {
    const char* text;
    const char* kind;
    int count;
    int rate;
  };
  for (const Case& example :
       {Case{"NVLink3 600GB/s; 8x200Gb/s HDR IB per node", "hdr", 8, 200},
        Case{"NVLink3; 4x OmniPath 100Gb/s per node", "omnipath", 4, 100},
        Case{"NVLink4; 8 x 400 Gb/s NDR", "ndr", 8, 400}, Case{"400Gbps RoCE", "roce", 1, 400},
        Case{"4x100Gb/s", "", 4, 100}, Case{"NVLink4; 8x400Gb/s IB per node", "ndr", 8, 400},
        Case{"NVLink5; 8x800Gb/s InfiniBand", "xdr", 8, 800},
        Case{"NVLink4; 32x100Gb/s EFA per node", "efa", 32, 100}}) {
    const std::optional<AdapterText> adapters = AdaptersIn(example.text);
    ASSERT_TRUE(adapters.has_value()) << example.text;
    EXPECT_EQ(adapters->kind, example.kind) << example.text;
    EXPECT_EQ(adapters->count, example.count) << example.text;
    EXPECT_EQ(adapters->gigabits_per_second, example.rate) << example.text;
  }
  EXPECT_FALSE(AdaptersIn("NVLink 600 GB/s").has_value());
  EXPECT_FALSE(AdaptersIn("800 Gb/s").has_value());  // of what?
  EXPECT_FALSE(AdaptersIn("").has_value());
}

TEST(DeviceOf, KnowsNamesOfPublications) {
  const auto id = [](const char* name, double memory_gb) {
    PublishedHardware hardware;
    hardware.device_name = name;
    hardware.memory_gb = memory_gb;
    const auto device = DeviceOf(hardware);
    return device.ok() ? device->device_id : std::string(device.status().message());
  };
  EXPECT_EQ(id("A100-SXM-80GB", 80), "a100-sxm-80gb");
  EXPECT_EQ(id("A100 (lts)", 0), "a100-sxm-80gb");
  EXPECT_EQ(id("A100", 40), "a100-sxm-40gb");
  EXPECT_EQ(id("NVIDIA H100 80GB HBM3", 0), "h100-sxm-80gb");
  EXPECT_EQ(id("GH-96", 0), "gh200-96gb");
  EXPECT_EQ(id("GB200", 0), "gb200-186gb");
  EXPECT_EQ(id("H100-SXM", 96), "h100-sxm-96gb");
  EXPECT_EQ(id("H100", 80), "h100-sxm-80gb");
  EXPECT_THAT(id("Abacus", 0), HasSubstr("hardware.gpu: `Abacus`"));
}

TEST(DevicesPerNode, AreThoseThatShareNvlink) {
  std::vector<std::string> assumptions;
  const auto devices = [&assumptions](const char* name, int count, int said) {
    PublishedHardware hardware;
    hardware.device_name = name;
    hardware.device_count = count;
    hardware.devices_per_node = said;
    return DevicesPerNode(hardware, *DeviceOf(hardware), &assumptions);
  };
  EXPECT_EQ(devices("H100", 64, 0), 8);
  EXPECT_EQ(devices("H100", 64, 4), 4);
  EXPECT_EQ(devices("GH-96", 64, 0), 4);
  // One rack: trays are nodes, and the rack is between them.
  EXPECT_EQ(devices("GB200", 64, 0), 4);
  EXPECT_THAT(assumptions, IsEmpty());
  EXPECT_EQ(devices("GB200", 256, 4), 64);
  EXPECT_EQ(devices("GB300", 144, 0), 72);
  EXPECT_EQ(devices("GB300", 80, 0), 4);
  EXPECT_EQ(assumptions.size(), 2u);
}

std::string FabricId(const char* interconnect, std::vector<std::string>* assumptions) {
  PublishedHardware hardware;
  hardware.device_name = "A100-SXM-80GB";
  hardware.interconnect = interconnect;
  return FabricOf(hardware, *DeviceOf(hardware), 8, 64, assumptions).fabric_id;
}

TEST(FabricOf, PrefersSystemsThenAdaptersThenTheUsual) {
  std::vector<std::string> assumptions;
  EXPECT_EQ(FabricId("4x OmniPath 100Gb/s per node (Jean Zay)", &assumptions),
            "nvlink-3+omnipath-4x100");
  EXPECT_EQ(FabricId("NVLink3; 4x200Gb/s HDR", &assumptions), "nvlink-3+hdr-4x200");
  EXPECT_EQ(FabricId("NVLink3; 3x50Gb/s RoCE", &assumptions), "nvlink-3+roce-3x50");
  EXPECT_THAT(assumptions, IsEmpty());
  EXPECT_EQ(FabricId("", &assumptions), "nvlink-3+hdr-8x200");
  EXPECT_THAT(assumptions, ElementsAre(HasSubstr("the network is not said")));
}

TEST(FabricOf, TakesTheRatesOfAdaptersTheLibraryDoesNotHave) {
  PublishedHardware hardware;
  hardware.device_name = "A100-SXM-80GB";
  hardware.interconnect = "2x50Gb/s RoCE";
  std::vector<std::string> assumptions;
  const FabricDescription fabric = FabricOf(hardware, *DeviceOf(hardware), 8, 64, &assumptions);
  EXPECT_EQ(fabric.inter_node.bytes_per_second_per_node, 12.5e9);
  EXPECT_EQ(fabric.inter_node.bytes_per_second_per_device, 6.25e9);
  EXPECT_GT(fabric.inter_node.latency, Seconds());
}

TEST(DeviceOf, TakesWhatTheSourceSaysBeyondTheDataSheet) {
  PublishedHardware hardware;
  hardware.device_name = "H100-of-a-customer";
  EXPECT_FALSE(DeviceOf(hardware).ok());
  hardware.similar_device_name = "H100-SXM-80GB";
  hardware.memory_terabytes_per_second = 2.4;
  hardware.power_limit_watts = 500.0;
  const auto device = DeviceOf(hardware);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(device->memory_bytes_per_second, 2.4e12);
  EXPECT_EQ(device->power_limit_watts, 500.0);
  EXPECT_EQ(device->matrix_flops_16_bit, 989.4e12);
}

TEST(FabricOf, NvlinkOfARackLeavesTheAdaptersAside) {
  PublishedHardware hardware;
  hardware.device_name = "GB200";
  hardware.devices_per_node = 4;
  hardware.nvlink_domain = 72;
  hardware.interconnect = "NVLink5 NVL72; 4x400Gb/s IB per node";
  const DeviceDescription device = *DeviceOf(hardware);
  std::vector<std::string> assumptions;
  EXPECT_EQ(FabricOf(hardware, device, 4, 64, &assumptions).fabric_id, "nvlink-5+nvlink-5-rack");
  // Sixteen trays have 64 adapters.
  const FabricDescription racks = FabricOf(hardware, device, 64, 256, &assumptions);
  EXPECT_EQ(racks.inter_node.bytes_per_second_per_node, 64 * 50e9);
  EXPECT_EQ(racks.inter_node.bytes_per_second_per_device, 50e9);
  EXPECT_THAT(assumptions, IsEmpty());
}

TEST(FabricOf, ReadsTheNetworkOfComputation) {
  PublishedHardware hardware;
  hardware.device_name = "H200-SXM";
  hardware.devices_per_node = 8;
  hardware.network_text =
      "Storage: 2x ConnectX-7 IB NDR 400Gb/s, Compute: 8x ConnectX-7 IB NDR 400Gb/s, Management: "
      "100Gb/s Ethernet NIC";
  std::vector<std::string> assumptions;
  EXPECT_EQ(FabricOf(hardware, *DeviceOf(hardware), 8, 512, &assumptions).fabric_id,
            "nvlink-4+ndr-8x400");
}

}  // namespace
}  // namespace parplan::accuracy
