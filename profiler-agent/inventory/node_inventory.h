// What one node is made of, and the topology that planners see of it.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_NODE_INVENTORY_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_NODE_INVENTORY_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/model/topology.h"
#include "profiler-agent/inventory/gpu_reader.h"
#include "profiler-agent/inventory/host_reader.h"
#include "profiler-agent/inventory/network_reader.h"

namespace parplan {

// What devices of a node are.
enum class DeviceType {
  // One core with one thread and one process pinned to it.
  kCpu,
  // A GPU with CUDA.
  kCuda,
};

struct NodeInventory {
  HostFacts host;
  GpuSet gpus;
  NetworkFacts networks;
};

struct InventoryOptions {
  HostReaderOptions host;
  GpuReaderOptions gpus;
  std::string sysfs_root = "/sys";
};

// Reads all of it. The errors of ReadHost; no GPUs and no networks are no error.
absl::StatusOr<NodeInventory> ReadInventory(const InventoryOptions& options = {});

// SHA-256 over what decides how fast the node is: processor, cores, memory; GPUs with their
// ids, clocks, links and driver; rates of networks. Not how busy it is. Another fingerprint
// asks for new measurements.
std::string InventoryFingerprint(const NodeInventory& inventory);

// The text behind it, for people who wonder why two differ.
std::string InventoryText(const NodeInventory& inventory);

struct TopologyOptions {
  std::string cluster = "local";
  // Name of the node; empty: nodes are not named.
  std::string node;
  DeviceType device_type = DeviceType::kCpu;
  // Devices of the node offered; 0: all.
  int device_count = 0;
};

// `Topology` of one such node: one node group, and tiers from the GPUs' links or from the
// machine's memory. FAILED_PRECONDITION where there is no such device (with the driver's
// reason), fewer than asked for, GPUs of several kinds, or GPUs cut into instances.
absl::StatusOr<Topology> ToTopology(const NodeInventory& inventory, const TopologyOptions& options);

// The kind of this node's devices, `CPU <model>` or the GPUs' name; the errors of ToTopology.
absl::StatusOr<std::string> DeviceKind(const NodeInventory& inventory, DeviceType type);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_NODE_INVENTORY_H_
