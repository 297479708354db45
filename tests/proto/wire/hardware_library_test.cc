#include "proto/wire/hardware_library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "planner/model/layer_precision.h"
#include "planner/model/precision.h"
#include "proto/wire/hardware_wire.h"
#include "tests/proto/wire/reverse_wire.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

const HardwareLibrary& Library() { return HardwareLibrary::BuiltIn(); }

const DeviceDescription& Device(const std::string& name) {
  const DeviceDescription* const device = Library().FindDevice(name);
  if (device == nullptr) ADD_FAILURE() << name << " is not in the library";
  static const DeviceDescription* const kNone = new DeviceDescription;
  return device == nullptr ? *kNone : *device;
}

// One device and one fabric.
v1::HardwareLibrary SmallLibrary() {
  v1::HardwareLibrary message;
  v1::DeviceDescription& device = *message.add_devices();
  device.set_device_id("one");
  device.set_device_family("ampere");
  device.add_aliases("NVIDIA One");
  device.add_aliases("First");
  device.set_matrix_flops_16_bit(4e12);
  device.set_matrix_flops_fp32(2e12);
  device.set_vector_flops_fp32(1e12);
  device.set_memory_bytes(1000);
  device.set_memory_bytes_per_second(1'000'000);
  device.set_last_level_cache_bytes(10);
  device.set_multiprocessor_count(1);
  device.add_sources("a data sheet");
  v1::UsualFabric& usual = *device.add_usual_fabrics();
  usual.set_fabric_id("inside+between");
  for (const bool inside : {true, false}) {
    v1::LinkDescription& link =
        inside ? *message.add_intra_node_links() : *message.add_inter_node_links();
    link.set_link_id(inside ? "inside" : "between");
    link.set_bytes_per_second_per_device(inside ? 100 : 10);
    link.mutable_latency_duration()->set_nanos(1000);
    link.add_sources("a data sheet");
  }
  v1::FabricDescription& fabric = *message.add_fabrics();
  fabric.set_fabric_id("inside+between");
  fabric.add_aliases("system");
  fabric.add_sources("a data sheet");
  return message;
}

TEST(HardwareLibrary, NamesTheFieldThatBreaksARule) {
  ASSERT_OK(HardwareLibrary::Create(SmallLibrary()).status());
  struct Case {
    std::string field;
    std::function<void(v1::HardwareLibrary&)> change;
  };
  const std::vector<Case> cases = {
      {"devices[0].multiprocessor_count",
       [](auto& l) { l.mutable_devices(0)->clear_multiprocessor_count(); }},
      {"devices[0].sources", [](auto& l) { l.mutable_devices(0)->clear_sources(); }},
      {"devices[0].sources[0]", [](auto& l) { l.mutable_devices(0)->set_sources(0, ""); }},
      {"devices[0].aliases[1]", [](auto& l) { l.mutable_devices(0)->set_aliases(1, " "); }},
      {"devices[1].device_id", [](auto& l) { *l.add_devices() = l.devices(0); }},
      {"devices[1].aliases[0]",
       [](auto& l) {
         v1::DeviceDescription device = l.devices(0);
         device.set_device_id("two");
         device.clear_aliases();
         device.add_aliases("nvidia FIRST");
         *l.add_devices() = device;
       }},
      {"intra_node_links[0].latency_duration",
       [](auto& l) { l.mutable_intra_node_links(0)->clear_latency_duration(); }},
      {"inter_node_links[0].sources",
       [](auto& l) { l.mutable_inter_node_links(0)->clear_sources(); }},
      {"inter_node_links[0].link_id",
       [](auto& l) { l.mutable_inter_node_links(0)->set_link_id("inside"); }},
      {"fabrics[0].fabric_id",
       [](auto& l) { l.mutable_fabrics(0)->set_fabric_id("between+inside"); }},
      {"fabrics[0].fabric_id", [](auto& l) { l.mutable_fabrics(0)->set_fabric_id("system"); }},
      {"fabrics[0].fabric_id",
       [](auto& l) { *l.mutable_fabrics(0)->mutable_intra_node() = l.intra_node_links(0); }},
      {"fabrics[0].sources", [](auto& l) { l.mutable_fabrics(0)->clear_sources(); }},
      {"fabrics[1].fabric_id", [](auto& l) { *l.add_fabrics() = l.fabrics(0); }},
      {"devices[0].usual_fabrics[0].fabric_id",
       [](auto& l) {
         l.mutable_devices(0)->mutable_usual_fabrics(0)->set_fabric_id("inside+nowhere");
       }},
      {"devices[0].usual_fabrics[0].max_devices_per_node",
       [](auto& l) {
         l.mutable_devices(0)->mutable_usual_fabrics(0)->set_max_devices_per_node(-1);
       }},
      {"devices[0].usual_fabrics[0].max_device_count",
       [](auto& l) { l.mutable_devices(0)->mutable_usual_fabrics(0)->set_max_device_count(-1); }},
  };
  for (const Case& test : cases) {
    v1::HardwareLibrary message = SmallLibrary();
    test.change(message);
    EXPECT_EQ(Rejection(HardwareLibrary::Create(message).status()), "SPEC_INVALID " + test.field);
  }
}

TEST(HardwareLibrary, FindsByNameAndAliasWhateverTheCase) {
  ASSERT_OK_AND_ASSIGN(const HardwareLibrary library, HardwareLibrary::Create(SmallLibrary()));
  for (const char* name : {"one", "ONE", "NVIDIA One", "nvidia one", "First", "NVIDIA first"}) {
    const DeviceDescription* const device = library.FindDevice(name);
    ASSERT_NE(device, nullptr) << name;
    EXPECT_EQ(device->device_id, "one");
    EXPECT_EQ(library.FindDeviceEntry(name)->device_id(), "one");
  }
  EXPECT_EQ(library.FindDevice("two"), nullptr);
  EXPECT_EQ(library.FindDevice(""), nullptr);
  EXPECT_EQ(library.FindFabric("System"), library.FindFabric("inside+between"));
  EXPECT_EQ(library.FindFabric("SYSTEM")->inter_node.link_id, "between");
  EXPECT_EQ(library.FindFabric("between+inside"), nullptr);
  EXPECT_EQ(library.FindFabricEntry("system")->aliases(0), "system");
}

TEST(HardwareLibrary, FirstUsualFabricThatTheClusterMeetsIsTaken) {
  v1::HardwareLibrary message = SmallLibrary();
  for (const char* id : {"rack", "slow"}) {
    v1::LinkDescription link = message.inter_node_links(0);
    link.set_link_id(id);
    *message.add_inter_node_links() = link;
  }
  v1::DeviceDescription& device = *message.mutable_devices(0);
  device.clear_usual_fabrics();
  const auto add = [&](const std::string& id, int per_node, int count) {
    v1::UsualFabric& usual = *device.add_usual_fabrics();
    usual.set_fabric_id(id);
    usual.set_max_devices_per_node(per_node);
    usual.set_max_device_count(count);
  };
  add("inside+rack", 4, 72);
  add("inside+slow", 4, 0);
  add("inside+between", 0, 0);
  ASSERT_OK_AND_ASSIGN(const HardwareLibrary library, HardwareLibrary::Create(message));
  const auto chosen = [&](int per_node, int count) {
    return library.DefaultFabricFor("First", per_node, count)->inter_node.link_id;
  };
  EXPECT_EQ(chosen(4, 72), "rack");
  EXPECT_EQ(chosen(4, 76), "slow");
  EXPECT_EQ(chosen(4, 0), "slow");
  EXPECT_EQ(chosen(8, 8), "between");
  EXPECT_EQ(library.DefaultFabricFor("two", 8), nullptr);
}

TEST(BuiltInHardware, ValuesAreThoseOfTheFiles) {
  EXPECT_GE(Library().message().devices_size(), 35);
  for (const v1::DeviceDescription& entry : Library().message().devices()) {
    SCOPED_TRACE(entry.device_id());
    const DeviceDescription& device = Device(entry.device_id());
    v1::DeviceDescription expected = entry;
    expected.clear_aliases();
    expected.clear_usual_fabrics();
    expected.clear_sources();
    EXPECT_EQ(DeviceToProto(device).DebugString(), expected.DebugString());
    for (const std::string& alias : entry.aliases()) EXPECT_EQ(&Device(alias), &device) << alias;
  }
}

TEST(BuiltInHardware, NoNameIsTwoDevices) {
  std::map<std::string, std::string> owners;
  for (const v1::DeviceDescription& entry : Library().message().devices()) {
    std::vector<std::string> names = {entry.aliases().begin(), entry.aliases().end()};
    names.push_back(entry.device_id());
    for (const std::string& name : names) {
      const auto [owner, is_new] = owners.emplace(absl::AsciiStrToLower(name), entry.device_id());
      EXPECT_TRUE(is_new || owner->second == entry.device_id()) << name;
    }
  }
}

TEST(BuiltInHardware, PeaksAreInTheirOrderAndRange) {
  for (const v1::DeviceDescription& entry : Library().message().devices()) {
    SCOPED_TRACE(entry.device_id());
    const DeviceDescription& device = Device(entry.device_id());
    EXPECT_GE(device.matrix_flops_16_bit, device.matrix_flops_fp32);
    EXPECT_GE(device.matrix_flops_fp32, device.vector_flops_fp32);
    EXPECT_GE(device.memory_bytes_per_second, 0.2e12);
    EXPECT_LE(device.memory_bytes_per_second, 10e12);
    // Operations per byte of memory traffic: what vendors build lies close together.
    const double intensity = device.matrix_flops_16_bit / device.memory_bytes_per_second;
    EXPECT_GE(intensity, 30.0);
    EXPECT_LE(intensity, 450.0);
    EXPECT_LT(device.last_level_cache, device.memory);
    EXPECT_GE(device.memory, Bytes::Of(10'000'000'000));
  }
}

// Operations per clock and multiprocessor, matrix (16-bit) and vector (fp32), of
// the chips of a family: white papers of the architectures. Boards for games do
// half of the matrix operations where they accumulate in fp32.
const std::map<std::string, std::vector<std::pair<double, double>>>& OperationsPerClock() {
  static const auto* const operations =
      new std::map<std::string, std::vector<std::pair<double, double>>>{
          {"volta", {{1024, 128}}},
          {"turing", {{1024, 128}, {512, 128}}},
          {"ampere", {{2048, 128}, {1024, 256}, {512, 256}}},
          {"ada", {{1024, 256}, {512, 256}}},
          {"hopper", {{4096, 256}}},
          {"blackwell", {{8192, 256}}},
          {"blackwell-rtx", {{1024, 256}, {512, 256}}},
      };
  return *operations;
}

TEST(BuiltInHardware, PeaksFollowFromMultiprocessorsAndAClock) {
  int checked = 0;
  for (const v1::DeviceDescription& entry : Library().message().devices()) {
    // Its matrix units are held back for export.
    if (entry.device_id() == "h20-96gb") continue;
    const auto chips = OperationsPerClock().find(entry.device_family());
    if (chips == OperationsPerClock().end()) continue;
    const DeviceDescription& device = Device(entry.device_id());
    double best = 1.0;
    for (const auto& [matrix, vector] : chips->second) {
      const double clock = device.matrix_flops_16_bit / device.multiprocessor_count / matrix;
      const double other = device.vector_flops_fp32 / device.multiprocessor_count / vector;
      if (std::min(clock, other) < 1.3e9 || std::max(clock, other) > 2.65e9) continue;
      best = std::min(best, std::abs(clock / other - 1.0));
    }
    EXPECT_LT(best, 0.14) << entry.device_id();
    ++checked;
  }
  EXPECT_GE(checked, 30);
}

// A new family silently has the general priors. It needs its own (planner/model/coefficients.cc)
// and its share of flash attention (`FlashShare`, planner/cost/analytic_layer.cc); then it is added
// here.
TEST(BuiltInHardware, FamiliesAreThoseOfTheCostModel) {
  std::set<std::string> families;
  for (const v1::DeviceDescription& entry : Library().message().devices()) {
    families.insert(entry.device_family());
  }
  EXPECT_EQ(families, (std::set<std::string>{"ada", "ampere", "blackwell", "blackwell-rtx", "cdna2",
                                             "cdna3", "cdna4", "hopper", "turing", "volta"}));
}

TEST(BuiltInHardware, ValuesOfTheDataSheets) {
  EXPECT_EQ(Device("A100").matrix_flops_16_bit, 312e12);
  EXPECT_EQ(Device("A100").memory_bytes_per_second, 2.039e12);
  EXPECT_EQ(Device("A100").multiprocessor_count, 108);
  EXPECT_EQ(Device("NVIDIA A100-SXM4-40GB").memory_bytes_per_second, 1.555e12);
  EXPECT_EQ(Device("V100").matrix_flops_16_bit, 125e12);
  EXPECT_NEAR(Device("H100-80GB").matrix_flops_16_bit, 989e12, 1e12);
  EXPECT_EQ(Device("NVIDIA H100 80GB HBM3").memory_bytes_per_second, 3.35e12);
  EXPECT_EQ(Device("NVIDIA H200").memory_bytes_per_second, 4.8e12);
  EXPECT_EQ(Device("NVIDIA L4").matrix_flops_16_bit, 121e12);
  EXPECT_EQ(Device("GB200").matrix_flops_16_bit, 2500e12);
  EXPECT_EQ(Device("NVIDIA GeForce RTX 4090").matrix_flops_16_bit, 165.2e12);
  // Dense, with fp32 accumulation.
  EXPECT_EQ(Device("NVIDIA GeForce RTX 4090").matrix_flops_8_bit, 330.3e12);
  EXPECT_EQ(Device("NVIDIA L40").matrix_flops_8_bit, 362e12);
  EXPECT_EQ(Device("NVIDIA L40S").matrix_flops_8_bit, 733e12);
  EXPECT_EQ(Device("NVIDIA GeForce RTX 5090").matrix_flops_8_bit, 419e12);
  EXPECT_EQ(Device("NVIDIA GeForce RTX 5090").matrix_flops_4_bit, 1676e12);
  EXPECT_EQ(Device("RTX PRO 6000").matrix_flops_4_bit, 2015.2e12);
}

// Operations of the matrix units per clock are those of MI355X, at 2200 instead of 2400 MHz.
TEST(BuiltInHardware, Mi350xIsASlowerMi355x) {
  const DeviceDescription& slow = Device("MI350X");
  const DeviceDescription& fast = Device("MI355X");
  EXPECT_NEAR(slow.matrix_flops_16_bit / fast.matrix_flops_16_bit, 2200.0 / 2400.0, 1e-4);
  EXPECT_NEAR(slow.matrix_flops_8_bit / fast.matrix_flops_8_bit, 2200.0 / 2400.0, 1e-4);
  EXPECT_NEAR(slow.matrix_flops_4_bit / fast.matrix_flops_4_bit, 2200.0 / 2400.0, 1e-4);
  EXPECT_NEAR(slow.vector_flops_fp32 / fast.vector_flops_fp32, 2200.0 / 2400.0, 1e-3);
}

// Boards for graphics have Blackwell's formats without its layouts and special units.
TEST(BuiltInHardware, GraphicsBoardsOfBlackwellAreAFamilyOfTheirOwn) {
  EXPECT_EQ(QuantisedCopyCount(Precision::kFp8Current, &Device("RTX 5090")), 2);
  EXPECT_EQ(QuantisedCopyCount(Precision::kFp8Current, &Device("B200")), 1);
}

TEST(BuiltInHardware, KnowsTheNamesOfPublishedRuns) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"A100", "a100-sxm-80gb"},      {"A100-SXM-80GB", "a100-sxm-80gb"},
      {"GH-96", "gh200-96gb"},        {"NVIDIA GH200 120GB", "gh200-96gb"},
      {"H100-80GB", "h100-sxm-80gb"}, {"GB200", "gb200-186gb"},
      {"RTX-TITAN", "rtx-titan"},     {"V100", "v100-sxm2-32gb"}};
  for (const auto& [name, device_id] : names) EXPECT_EQ(Device(name).device_id, device_id) << name;
}

// Matrix units multiply operands of half the bits at twice the rate, but for the 4 bits of B300 and
// of RTX 5090, of which fp32 accumulation halves only the rates of 16 and 8 bits. The data sheet of
// L40S prints the dense peak of 16 bits a hundredth lower than half of the others.
TEST(BuiltInHardware, NarrowPeaksAreThoseOfTwiceTheRate) {
  int checked = 0;
  for (const v1::DeviceDescription& entry : Library().message().devices()) {
    SCOPED_TRACE(entry.device_id());
    const DeviceDescription& device = Device(entry.device_id());
    if (device.matrix_flops_8_bit > 0.0) {
      EXPECT_NEAR(device.matrix_flops_8_bit / device.matrix_flops_16_bit, 2.0, 0.03);
      ++checked;
    }
    if (device.matrix_flops_4_bit > 0.0) {
      EXPECT_GE(device.matrix_flops_4_bit / device.matrix_flops_8_bit, 1.99);
      EXPECT_LE(device.matrix_flops_4_bit / device.matrix_flops_8_bit, 4.01);
    }
    if (device.power_limit_watts > 0.0) {
      EXPECT_GE(device.power_limit_watts, 300.0);
      EXPECT_LE(device.power_limit_watts, 1500.0);
    }
  }
  EXPECT_GE(checked, 23);
}

// The share of each of `devices_per_node` devices when all send.
double Share(const LinkDescription& link, int devices_per_node) {
  if (link.bytes_per_second_per_node == 0.0) return link.bytes_per_second_per_device;
  return std::min(link.bytes_per_second_per_device,
                  link.bytes_per_second_per_node / devices_per_node);
}

TEST(BuiltInHardware, EveryDeviceHasAUsualFabricThatIsFasterInsideANode) {
  for (const v1::DeviceDescription& entry : Library().message().devices()) {
    for (const int devices_per_node : {1, 2, 4, 8, 16, 72}) {
      for (const int device_count : {0, devices_per_node, 4096}) {
        const FabricDescription* const fabric =
            Library().DefaultFabricFor(entry.device_id(), devices_per_node, device_count);
        ASSERT_NE(fabric, nullptr) << entry.device_id();
        if (devices_per_node == 1) continue;
        EXPECT_GE(Share(fabric->intra_node, devices_per_node),
                  Share(fabric->inter_node, devices_per_node))
            << entry.device_id() << " " << fabric->fabric_id;
      }
    }
  }
  EXPECT_EQ(Library().DefaultFabricFor("A100", 8), Library().FindFabric("dgx-a100"));
  EXPECT_EQ(Library().DefaultFabricFor("H100", 8), Library().FindFabric("dgx-h100"));
  EXPECT_EQ(Library().DefaultFabricFor("GH-96", 4), Library().FindFabric("alps-clariden"));
  EXPECT_EQ(Library().DefaultFabricFor("GB200", 72), Library().FindFabric("gb200-nvl72"));
  EXPECT_EQ(Library().DefaultFabricFor("GB200", 4, 64), Library().FindFabric("gb200-nvl72-rack"));
}

TEST(BuiltInHardware, FabricsOfKnownSystems) {
  struct Case {
    std::string name;
    double per_device, per_node;
  };
  // One way, bytes per second: adapters times Gb/s / 8.
  const std::vector<Case> cases = {
      {"selene", 25e9, 200e9},         {"vtrain-cluster", 25e9, 100e9},
      {"jean-zay-a100", 12.5e9, 50e9}, {"alps-clariden", 25e9, 100e9},
      {"dgx-h100", 50e9, 400e9},       {"aws-p4d", 12.5e9, 50e9},
      {"aws-p5", 50e9, 400e9},         {"dgx-1-v100", 12.5e9, 50e9},
      {"gb200-nvl72", 50e9, 3600e9},   {"azure-nd-a100-v4", 25e9, 200e9}};
  for (const Case& test : cases) {
    const FabricDescription* const fabric = Library().FindFabric(test.name);
    ASSERT_NE(fabric, nullptr) << test.name;
    EXPECT_EQ(fabric->inter_node.bytes_per_second_per_device, test.per_device) << test.name;
    EXPECT_EQ(fabric->inter_node.bytes_per_second_per_node, test.per_node) << test.name;
  }
}

double PerDevice(const std::string& link_id) {
  for (const v1::LinkDescription& link : Library().message().intra_node_links()) {
    if (link.link_id() == link_id) return static_cast<double>(link.bytes_per_second_per_device());
  }
  ADD_FAILURE() << link_id << " is not in the library";
  return 0.0;
}

TEST(BuiltInHardware, GenerationsOfLinksBecomeFaster) {
  EXPECT_LT(PerDevice("pcie-3"), PerDevice("pcie-4"));
  EXPECT_LT(PerDevice("pcie-4"), PerDevice("pcie-5"));
  EXPECT_LT(PerDevice("pcie-5"), PerDevice("nvlink-1-mesh"));
  EXPECT_LT(PerDevice("nvlink-1-mesh"), PerDevice("nvlink-2"));
  EXPECT_LT(PerDevice("nvlink-2"), PerDevice("nvlink-3"));
  EXPECT_LT(PerDevice("nvlink-3"), PerDevice("nvlink-4"));
  EXPECT_LT(PerDevice("nvlink-4"), PerDevice("nvlink-5"));
}

TEST(BuiltInHardware, AdaptersMakeTheRateOfANode) {
  for (const v1::LinkDescription& link : Library().message().inter_node_links()) {
    const std::string& id = link.link_id();
    const size_t dash = id.rfind('-');
    const size_t times = id.rfind('x');
    if (link.bytes_per_second_per_node() == 0) {
      EXPECT_EQ(id, "nvlink-5-rack");
      continue;
    }
    ASSERT_TRUE(dash != std::string::npos && times != std::string::npos && times > dash) << id;
    const int64_t adapters = std::stoi(id.substr(dash + 1, times - dash - 1));
    const int64_t gigabits = std::stoi(id.substr(times + 1));
    EXPECT_EQ(link.bytes_per_second_per_node(), adapters * gigabits * 125'000'000) << id;
    EXPECT_EQ(link.bytes_per_second_per_device() % (gigabits * 125'000'000), 0) << id;
    EXPECT_LE(link.bytes_per_second_per_device(), link.bytes_per_second_per_node()) << id;
  }
}

}  // namespace
}  // namespace parplan
