#include "profiler-agent/inventory/node_inventory.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/canonical_text.h"
#include "proto/wire/digest.h"

namespace parplan {
namespace {

absl::Status Unfit(absl::string_view why) {
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kTopologyMismatch, why);
}

// Checks that the GPUs are available, whole and all of one kind.
absl::Status CheckGpus(const GpuSet& gpus) {
  if (gpus.availability != GpuAvailability::kAvailable) {
    return Unfit(absl::StrCat("no usable GPU (", GpuAvailabilityName(gpus.availability),
                              "): ", gpus.message));
  }
  for (const GpuDevice& device : gpus.devices) {
    if (device.name != gpus.devices.front().name ||
        device.memory_bytes != gpus.devices.front().memory_bytes) {
      return Unfit(absl::StrCat(
          "GPU ", device.index, " is a ", device.name, " with ", device.memory_bytes,
          " bytes, GPU ", gpus.devices.front().index, " a ", gpus.devices.front().name, " with ",
          gpus.devices.front().memory_bytes,
          "; a node must offer one kind of GPU: hide the others with CUDA_VISIBLE_DEVICES"));
    }
    if (device.is_partitioned) {
      return Unfit(absl::StrCat("GPU ", device.index,
                                " is split into instances (MIG); disable MIG, or hide this GPU "
                                "with CUDA_VISIBLE_DEVICES"));
    }
  }
  return absl::OkStatus();
}

bool AllHaveNvlink(const GpuSet& gpus) {
  return std::all_of(gpus.devices.begin(), gpus.devices.end(),
                     [](const GpuDevice& device) { return device.nvlink_count > 0; });
}

// Returns the largest size of groups of consecutive GPUs, of which `count` is a multiple, in each
// of which `meets(a, b)` holds for all pairs; 1 if there is none.
int LargestGroup(int count, absl::FunctionRef<bool(size_t, size_t)> meets) {
  for (int size = count; size > 1; --size) {
    if (count % size != 0) continue;
    bool fits = true;
    for (int a = 0; a < count && fits; ++a) {
      for (int b = a - a % size; b < a; ++b) {
        fits = fits && meets(static_cast<size_t>(a), static_cast<size_t>(b));
      }
    }
    if (fits) return size;
  }
  return 1;
}

// Returns the tiers between the first `count` GPUs, fastest first: NVLink as far as the driver says
// that it reaches, the paths within a socket, and all. Bridges join pairs of GPUs, switches all.
std::vector<LinkTier> GpuTiers(const GpuSet& gpus, int count) {
  const int linked = LargestGroup(count, [&](size_t a, size_t b) {
    return gpus.nvlink_peers.empty() ? AllHaveNvlink(gpus) : gpus.nvlink_peers[a][b];
  });
  const int near = LargestGroup(count, [&](size_t a, size_t b) {
    const int level = gpus.common_ancestors[a][b];
    return level >= 0 && level < nvml::kLevelSystem;
  });
  // One GPU has the link that others would be reached by.
  if (linked == count && AllHaveNvlink(gpus)) return {{"nvlink", count}};
  std::vector<LinkTier> tiers;
  if (linked > 1) tiers.push_back({"nvlink", linked});
  // Tiers contain one another.
  if (near > linked && near < count && near % linked == 0) tiers.push_back({"pcie", near});
  tiers.push_back({near == count ? "pcie" : "socket", count});
  return tiers;
}

}  // namespace

absl::StatusOr<NodeInventory> ReadInventory(const InventoryOptions& options) {
  NodeInventory inventory;
  PARPLAN_ASSIGN_OR_RETURN(inventory.host, ReadHost(options.host));
  inventory.gpus = ReadGpus(options.gpus);
  inventory.networks = ReadNetworks(options.sysfs_root);
  return inventory;
}

std::string InventoryText(const NodeInventory& inventory) {
  std::string text = "parplan inventory 1\n";
  const HostFacts& host = inventory.host;
  absl::StrAppend(
      &text, CanonicalLine("host", {StringWord(host.cpu_model), IntegerWord(host.socket_count),
                                    IntegerWord(host.core_count), IntegerWord(host.thread_count),
                                    IntegerWord(host.memory_bytes), StringWord(host.kernel)}));
  for (const NumaNode& numa : host.numa_nodes) {
    absl::StrAppend(&text, CanonicalLine("numa", {IntegerWord(numa.memory_bytes),
                                                  IntegerWord(numa.core_count)}));
  }
  const GpuSet& gpus = inventory.gpus;
  absl::StrAppend(
      &text,
      CanonicalLine("driver", {StringWord(GpuAvailabilityName(gpus.availability)),
                               StringWord(gpus.driver_version), IntegerWord(gpus.cuda_version)}));
  for (const GpuDevice& gpu : gpus.devices) {
    absl::StrAppend(
        &text, CanonicalLine(
                   "gpu", {IntegerWord(gpu.index), StringWord(gpu.name), StringWord(gpu.uuid),
                           StringWord(gpu.pci_bus_id), IntegerWord(gpu.memory_bytes),
                           IntegerWord(gpu.compute_capability), IntegerWord(gpu.max_sm_clock_mhz),
                           IntegerWord(gpu.max_memory_clock_mhz), IntegerWord(gpu.nvlink_count),
                           FlagWord(gpu.is_partitioned)}));
  }
  for (const std::vector<int>& row : gpus.common_ancestors) {
    std::string line = "meets";
    for (const int level : row) absl::StrAppend(&line, " ", level);
    absl::StrAppend(&text, line, "\n");
  }
  for (const std::vector<bool>& row : gpus.nvlink_peers) {
    std::string line = "nvlink";
    for (const bool is_peer : row) absl::StrAppend(&line, " ", is_peer ? 1 : 0);
    absl::StrAppend(&text, line, "\n");
  }
  std::vector<std::string> networks;
  for (const RdmaPort& port : inventory.networks.rdma_ports) {
    networks.push_back(CanonicalLine(
        "rdma", {StringWord(port.device), IntegerWord(port.port), StringWord(port.link_layer),
                 NumberWord(port.gigabits_per_second), FlagWord(port.is_active)}));
  }
  for (const NetworkInterface& found : inventory.networks.interfaces) {
    networks.push_back(CanonicalLine(
        "net",
        {StringWord(found.name), IntegerWord(found.megabits_per_second), FlagWord(found.is_up)}));
  }
  absl::StrAppend(&text, SortedLines(std::move(networks)));
  return text;
}

std::string InventoryFingerprint(const NodeInventory& inventory) {
  return Sha256Hex(InventoryText(inventory));
}

absl::StatusOr<std::string> DeviceKind(const NodeInventory& inventory, DeviceType type) {
  if (type == DeviceType::kCpu) return absl::StrCat("CPU ", inventory.host.cpu_model);
  PARPLAN_RETURN_IF_ERROR(CheckGpus(inventory.gpus));
  return inventory.gpus.devices.front().name;
}

absl::StatusOr<Topology> ToTopology(const NodeInventory& inventory,
                                    const TopologyOptions& options) {
  PARPLAN_ASSIGN_OR_RETURN(std::string kind, DeviceKind(inventory, options.device_type));
  const bool is_cpu = options.device_type == DeviceType::kCpu;
  const int present =
      is_cpu ? inventory.host.core_count : static_cast<int>(inventory.gpus.devices.size());
  const int count = options.device_count == 0 ? present : options.device_count;
  if (count < 1 || present < 1 || (!is_cpu && count > present)) {
    return Unfit(absl::StrCat("the node has ", present, is_cpu ? " cores" : " GPUs", ", not the ",
                              count, " devices asked for"));
  }
  NodeGroup group;
  group.node_group_id = is_cpu ? "cpu" : "gpu";
  group.device_kind = std::move(kind);
  group.node_count = 1;
  if (!options.node.empty()) group.node_names = {options.node};
  group.devices_per_node = count;
  // A core's share of the machine's memory: divided by the hardware threads, or by the number of
  // ranks if that is larger. The CPU back end of executor/device reports the same.
  group.device_memory = Bytes::Of(is_cpu ? inventory.host.memory_bytes /
                                               std::max({1, inventory.host.thread_count, count})
                                         : inventory.gpus.devices.front().memory_bytes);
  std::vector<LinkTier> tiers =
      is_cpu ? std::vector<LinkTier>{{"memory", count}} : GpuTiers(inventory.gpus, count);
  return Topology::Create(options.cluster, {std::move(group)}, std::move(tiers));
}

}  // namespace parplan
