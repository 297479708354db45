#include "proto/wire/hardware_wire.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tests/proto/wire/reverse_wire.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

v1::DeviceDescription DeviceMessage() {
  v1::DeviceDescription message;
  message.set_device_id("a100-sxm-80gb");
  message.set_device_family("ampere");
  message.set_matrix_flops_16_bit(312e12);
  message.set_matrix_flops_fp32(156e12);
  message.set_vector_flops_fp32(19.5e12);
  message.set_memory_bytes(80'000'000'000);
  message.set_memory_bytes_per_second(2'039'000'000'000);
  message.set_last_level_cache_bytes(41'943'040);
  message.set_multiprocessor_count(108);
  return message;
}

v1::LinkDescription LinkMessage(const std::string& link_id, int64_t per_device, int64_t per_node) {
  v1::LinkDescription message;
  message.set_link_id(link_id);
  message.set_bytes_per_second_per_device(per_device);
  message.set_bytes_per_second_per_node(per_node);
  message.mutable_latency_duration()->set_nanos(1900);
  return message;
}

v1::FabricDescription FabricMessage() {
  v1::FabricDescription message;
  message.set_fabric_id("nvlink-3+hdr-8x200");
  *message.mutable_intra_node() = LinkMessage("nvlink-3", 300'000'000'000, 0);
  *message.mutable_inter_node() = LinkMessage("hdr-8x200", 25'000'000'000, 200'000'000'000);
  return message;
}

TEST(HardwareWire, ThereAndBackIsTheSame) {
  ASSERT_OK_AND_ASSIGN(const DeviceDescription device, DeviceFromProto(DeviceMessage()));
  EXPECT_EQ(DeviceToProto(device).DebugString(), DeviceMessage().DebugString());
  ASSERT_OK_AND_ASSIGN(const FabricDescription fabric, FabricFromProto(FabricMessage()));
  EXPECT_EQ(FabricToProto(fabric).DebugString(), FabricMessage().DebugString());
  ASSERT_OK_AND_ASSIGN(const FabricDescription again, FabricFromProto(FabricToProto(fabric)));
  EXPECT_TRUE(again == fabric);
}

TEST(HardwareWire, NamesTheFieldOfADeviceThatBreaksARule) {
  struct Case {
    std::string field;
    std::function<void(v1::DeviceDescription&)> change;
  };
  const std::vector<Case> cases = {
      {"device_id", [](auto& d) { d.clear_device_id(); }},
      {"device_id", [](auto& d) { d.set_device_id("A100"); }},
      {"device_id", [](auto& d) { d.set_device_id("-a"); }},
      {"device_id", [](auto& d) { d.set_device_id("a+b"); }},
      {"device_id", [](auto& d) { d.set_device_id(std::string(64, 'a')); }},
      {"device_family", [](auto& d) { d.clear_device_family(); }},
      {"matrix_flops_16_bit", [](auto& d) { d.set_matrix_flops_16_bit(0.0); }},
      {"matrix_flops_fp32",
       [](auto& d) { d.set_matrix_flops_fp32(std::numeric_limits<double>::infinity()); }},
      {"vector_flops_fp32", [](auto& d) { d.set_vector_flops_fp32(-1.0); }},
      {"memory_bytes", [](auto& d) { d.set_memory_bytes(0); }},
      {"memory_bytes_per_second", [](auto& d) { d.clear_memory_bytes_per_second(); }},
      {"last_level_cache_bytes", [](auto& d) { d.set_last_level_cache_bytes(-1); }},
      {"multiprocessor_count", [](auto& d) { d.set_multiprocessor_count(0); }},
      {"matrix_flops_8_bit", [](auto& d) { d.set_matrix_flops_8_bit(-1.0); }},
      {"matrix_flops_4_bit", [](auto& d) { d.set_matrix_flops_4_bit(-1.0); }},
      {"power_limit_watts", [](auto& d) { d.set_power_limit_watts(-1.0); }},
  };
  for (const Case& test : cases) {
    v1::DeviceDescription message = DeviceMessage();
    test.change(message);
    EXPECT_EQ(Rejection(DeviceFromProto(message, "hardware.device").status()),
              "SPEC_INVALID hardware.device." + test.field);
  }
}

TEST(HardwareWire, NamesTheFieldOfAFabricThatBreaksARule) {
  struct Case {
    std::string field;
    std::function<void(v1::FabricDescription&)> change;
  };
  const std::vector<Case> cases = {
      {"intra_node.link_id", [](auto& f) { f.clear_intra_node(); }},
      {"intra_node.bytes_per_second_per_device",
       [](auto& f) { f.mutable_intra_node()->clear_bytes_per_second_per_device(); }},
      {"inter_node.bytes_per_second_per_node",
       [](auto& f) { f.mutable_inter_node()->set_bytes_per_second_per_node(-1); }},
      {"inter_node.latency_duration",
       [](auto& f) { f.mutable_inter_node()->clear_latency_duration(); }},
      {"inter_node.latency_duration",
       [](auto& f) { f.mutable_inter_node()->mutable_latency_duration()->set_nanos(0); }},
      {"inter_node.latency_duration",
       [](auto& f) { f.mutable_inter_node()->mutable_latency_duration()->set_seconds(-1); }},
  };
  for (const Case& test : cases) {
    v1::FabricDescription message = FabricMessage();
    test.change(message);
    EXPECT_EQ(Rejection(FabricFromProto(message).status()), "SPEC_INVALID fabric." + test.field);
  }
}

Hardware SomeHardware() {
  Hardware hardware;
  hardware.device = *DeviceFromProto(DeviceMessage());
  hardware.fabric = *FabricFromProto(FabricMessage());
  return hardware;
}

TEST(HardwareDigest, FormNeverChanges) {
  EXPECT_EQ(HardwareText(SomeHardware()),
            "parplan hardware 1\n"
            "device \"a100-sxm-80gb\" \"ampere\" 312000000000000 156000000000000 19500000000000 "
            "80000000000 2039000000000 41943040 108\n"
            "fabric \"nvlink-3+hdr-8x200\"\n"
            "intra_node \"nvlink-3\" 300000000000 0 1.9e-06\n"
            "inter_node \"hdr-8x200\" 25000000000 200000000000 1.9e-06\n");
  EXPECT_EQ(HardwareDigest(SomeHardware()),
            "1323518b3ede40f4285ea5a87a479ccf2e13eacd00714df162b107f8979db808");
}

TEST(HardwareDigest, EveryFieldCounts) {
  const std::vector<std::function<void(Hardware&)>> changes = {
      [](auto&) {},
      [](auto& h) { h.device.device_id = "other"; },
      [](auto& h) { h.device.device_family = "other"; },
      [](auto& h) { h.device.matrix_flops_16_bit += 1e12; },
      [](auto& h) { h.device.matrix_flops_fp32 += 1e12; },
      [](auto& h) { h.device.vector_flops_fp32 += 1e12; },
      [](auto& h) { h.device.matrix_flops_8_bit = 624e12; },
      [](auto& h) { h.device.matrix_flops_4_bit = 624e12; },
      [](auto& h) { h.device.power_limit_watts = 400.0; },
      [](auto& h) { h.device.memory += Bytes::Of(1); },
      [](auto& h) { h.device.memory_bytes_per_second += 1.0; },
      [](auto& h) { h.device.last_level_cache += Bytes::Of(1); },
      [](auto& h) { ++h.device.multiprocessor_count; },
      [](auto& h) { h.fabric.fabric_id = "other"; },
      [](auto& h) { h.fabric.intra_node.link_id = "other"; },
      [](auto& h) { h.fabric.intra_node.bytes_per_second_per_device += 1.0; },
      [](auto& h) { h.fabric.intra_node.bytes_per_second_per_node += 1.0; },
      [](auto& h) { h.fabric.intra_node.latency += Seconds::Of(1e-9); },
      [](auto& h) { h.fabric.inter_node.link_id = "other"; },
      [](auto& h) { h.fabric.inter_node.bytes_per_second_per_device += 1.0; },
      [](auto& h) { h.fabric.inter_node.bytes_per_second_per_node += 1.0; },
      [](auto& h) { h.fabric.inter_node.latency += Seconds::Of(1e-9); },
  };
  std::set<std::string> digests;
  for (const auto& change : changes) {
    Hardware hardware = SomeHardware();
    change(hardware);
    digests.insert(HardwareDigest(hardware));
  }
  EXPECT_EQ(digests.size(), changes.size());
}

}  // namespace
}  // namespace parplan
