#include "planner/model/hardware.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

DeviceDescription Device() {
  DeviceDescription device;
  device.device_id = "d";
  device.device_family = "ampere";
  device.matrix_flops_16_bit = 300e12;
  device.matrix_flops_fp32 = 150e12;
  device.vector_flops_fp32 = 20e12;
  device.memory = Bytes::Of(80'000'000'000);
  device.memory_bytes_per_second = 2e12;
  device.last_level_cache = Bytes::Of(40'000'000);
  device.multiprocessor_count = 108;
  return device;
}

FabricDescription SmallFabric() {
  FabricDescription fabric;
  fabric.fabric_id = "f";
  fabric.intra_node = {"inside", 300e9, 0.0, Seconds::Of(2e-6)};
  fabric.inter_node = {"between", 25e9, 100e9, Seconds::Of(4e-6)};
  return fabric;
}

// The field a status names.
std::string FieldOf(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value() || !detail->metadata.contains("field")) return status.ToString();
  return detail->metadata.at("field");
}

TEST(DeviceDescription, MatrixPeakFollowsThePrecision) {
  const DeviceDescription device = Device();
  EXPECT_EQ(device.MatrixFlops(ComputeFormat::k16Bit), 300e12);
  EXPECT_EQ(device.MatrixFlops(ComputeFormat::kFp32), 150e12);
}

TEST(DeviceDescription, NamesTheMemberThatBreaksARule) {
  ASSERT_OK_AND_ASSIGN(const DeviceDescription device, DeviceDescription::Create(Device(), "d"));
  EXPECT_TRUE(device == Device());
  struct Case {
    std::string field;
    std::function<void(DeviceDescription&)> change;
  };
  const double infinite = std::numeric_limits<double>::infinity();
  const std::vector<Case> cases = {
      {"d.device_id", [](auto& d) { d.device_id.clear(); }},
      {"d.device_family", [](auto& d) { d.device_family.clear(); }},
      {"d.matrix_flops_16_bit", [](auto& d) { d.matrix_flops_16_bit = 0.0; }},
      {"d.matrix_flops_fp32", [&](auto& d) { d.matrix_flops_fp32 = infinite; }},
      {"d.vector_flops_fp32",
       [](auto& d) { d.vector_flops_fp32 = std::numeric_limits<double>::quiet_NaN(); }},
      {"d.memory_bytes", [](auto& d) { d.memory = Bytes::Of(-1); }},
      {"d.memory_bytes_per_second", [](auto& d) { d.memory_bytes_per_second = -1.0; }},
      {"d.last_level_cache_bytes", [](auto& d) { d.last_level_cache = Bytes::Of(0); }},
      {"d.multiprocessor_count", [](auto& d) { d.multiprocessor_count = 0; }},
  };
  for (const Case& test : cases) {
    DeviceDescription changed = Device();
    test.change(changed);
    EXPECT_EQ(FieldOf(DeviceDescription::Create(changed, "d").status()), test.field);
  }
}

TEST(FabricDescription, NamesTheMemberThatBreaksARule) {
  ASSERT_OK_AND_ASSIGN(const FabricDescription fabric,
                       FabricDescription::Create(SmallFabric(), "f"));
  EXPECT_TRUE(fabric == SmallFabric());
  struct Case {
    std::string field;
    std::function<void(FabricDescription&)> change;
  };
  const std::vector<Case> cases = {
      {"f.fabric_id", [](auto& f) { f.fabric_id.clear(); }},
      {"f.intra_node.link_id", [](auto& f) { f.intra_node.link_id.clear(); }},
      {"f.intra_node.bytes_per_second_per_device",
       [](auto& f) { f.intra_node.bytes_per_second_per_device = 0.0; }},
      {"f.intra_node.bytes_per_second_per_node",
       [](auto& f) { f.intra_node.bytes_per_second_per_node = -1.0; }},
      {"f.inter_node.latency_duration", [](auto& f) { f.inter_node.latency = Seconds(); }},
      {"f.inter_node.latency_duration",
       [](auto& f) { f.inter_node.latency = Seconds::Infinite(); }},
  };
  for (const Case& test : cases) {
    FabricDescription changed = SmallFabric();
    test.change(changed);
    EXPECT_EQ(FieldOf(FabricDescription::Create(changed, "f").status()), test.field);
  }
}

TEST(LinkDescription, DevicesThatDoNotShareAreAllowed) {
  LinkDescription link = SmallFabric().intra_node;
  link.bytes_per_second_per_node = 0.0;
  EXPECT_OK(LinkDescription::Create(link, "link"));
}

TEST(DeviceDescription, WidensOperandsThatItDoesNotMultiply) {
  DeviceDescription device = Device();
  EXPECT_EQ(device.MatrixFlops(ComputeFormat::k4Bit), 300e12);
  EXPECT_FALSE(device.Multiplies(ComputeFormat::k8Bit));
  device.matrix_flops_8_bit = 600e12;
  EXPECT_EQ(device.MatrixFlops(ComputeFormat::k8Bit), 600e12);
  EXPECT_EQ(device.MatrixFlops(ComputeFormat::k4Bit), 600e12);
  EXPECT_TRUE(device.Multiplies(ComputeFormat::k8Bit));
  EXPECT_FALSE(device.Multiplies(ComputeFormat::k4Bit));
  EXPECT_TRUE(device.Multiplies(ComputeFormat::kFp32));
}

TEST(DeviceDescription, RefusesRatesBelowZeroThatItNeedNotHave) {
  for (double DeviceDescription::*member :
       {&DeviceDescription::matrix_flops_8_bit, &DeviceDescription::matrix_flops_4_bit,
        &DeviceDescription::power_limit_watts}) {
    DeviceDescription device = Device();
    device.*member = -1.0;
    EXPECT_FALSE(DeviceDescription::Create(device, "d").ok());
    device.*member = 700.0;
    EXPECT_OK(DeviceDescription::Create(device, "d"));
  }
}

}  // namespace
}  // namespace parplan
