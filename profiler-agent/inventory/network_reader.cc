#include "profiler-agent/inventory/network_reader.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "profiler-agent/inventory/small_file.h"

namespace parplan {
namespace {

int IntegerIn(const std::string& path, int otherwise) {
  int value = 0;
  return absl::SimpleAtoi(ReadSmallFile(path), &value) ? value : otherwise;
}

// Reads one RDMA port. The kernel writes states as `4: ACTIVE` and rates as `400 Gb/sec (4X NDR)`.
RdmaPort ReadPort(const std::string& folder, const std::string& device, int port) {
  RdmaPort found;
  found.device = device;
  found.port = port;
  const std::string at = absl::StrCat(folder, "/", device, "/ports/", port);
  found.link_layer = ReadSmallFile(at + "/link_layer");
  found.is_active = absl::StrContains(ReadSmallFile(at + "/state"), "ACTIVE");
  const std::vector<std::string> rate = absl::StrSplit(ReadSmallFile(at + "/rate"), ' ');
  if (!absl::SimpleAtod(rate.front(), &found.gigabits_per_second)) found.gigabits_per_second = 0.0;
  found.numa_node = IntegerIn(absl::StrCat(folder, "/", device, "/device/numa_node"), -1);
  return found;
}

}  // namespace

NetworkFacts ReadNetworks(const std::string& sysfs_root) {
  NetworkFacts facts;
  const std::string rdma = sysfs_root + "/class/infiniband";
  for (const std::string& device : ListFolder(rdma)) {
    for (const std::string& port : ListFolder(absl::StrCat(rdma, "/", device, "/ports"))) {
      int number = 0;
      if (!absl::SimpleAtoi(port, &number)) continue;
      facts.rdma_ports.push_back(ReadPort(rdma, device, number));
    }
  }
  const std::string net = sysfs_root + "/class/net";
  for (const std::string& name : ListFolder(net)) {
    const std::string at = absl::StrCat(net, "/", name);
    std::error_code error;
    // Interfaces without a device are virtual: loopback, bridges and the like.
    if (!std::filesystem::exists(at + "/device", error)) continue;
    NetworkInterface found;
    found.name = name;
    found.megabits_per_second = std::max(IntegerIn(at + "/speed", 0), 0);
    found.is_up = ReadSmallFile(at + "/operstate") == "up";
    found.numa_node = IntegerIn(at + "/device/numa_node", -1);
    facts.interfaces.push_back(std::move(found));
  }
  return facts;
}

}  // namespace parplan
