// The hardware of one node, and the topology that planners see of it. The daemon reads it at its
// start, every hour and before each measurement, and `parplan-agent --once` and `--inventory` do.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_NODE_INVENTORY_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_NODE_INVENTORY_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/model/topology.h"
#include "profiler-agent/inventory/gpu_reader.h"
#include "profiler-agent/inventory/host_reader.h"
#include "profiler-agent/inventory/network_reader.h"

namespace parplan {

// The kind of device that a node offers to training.
enum class DeviceType {
  // A processor core with one process of one thread pinned to it.
  kCpu,
  // An NVIDIA GPU, used through CUDA.
  kCuda,
};

// Everything that was read of a node, as of one moment.
struct NodeInventory {
  HostFacts host;
  GpuSet gpus;
  NetworkFacts networks;
};

// The places to read; the defaults are this machine.
struct InventoryOptions {
  HostReaderOptions host;
  GpuReaderOptions gpus;
  // Folder at which the kernel's sysfs is mounted.
  std::string sysfs_root = "/sys";
};

// Reads the whole inventory. INTERNAL if hwloc fails, INVALID_ARGUMENT (SPEC_INVALID) for an
// unusable `topology_file`; missing GPUs and networks are not errors.
absl::StatusOr<NodeInventory> ReadInventory(const InventoryOptions& options = {});

// Returns the SHA-256 of InventoryText, in hexadecimal. It covers what decides how fast the node
// is: processor, cores, memory and kernel release; GPUs with their ids, highest clocks, links and
// driver; networks with their rates and whether they are up. It covers neither load nor power
// limits. A changed fingerprint means that the node must be measured again.
std::string InventoryFingerprint(const NodeInventory& inventory);

// Returns the text that the fingerprint is made from, to find out why two fingerprints differ.
std::string InventoryText(const NodeInventory& inventory);

// The devices that the topology offers, and its names.
struct TopologyOptions {
  // Name of the cluster.
  std::string cluster = "local";
  // Name of the node; empty leaves nodes unnamed.
  std::string node;
  DeviceType device_type = DeviceType::kCpu;
  // Number of devices to offer, the first of the visible GPUs; 0 for all.
  int device_count = 0;
};

// Returns a `Topology` of this node alone: one node group, and tiers from the links between GPUs or
// from the machine's memory. Memory is a GPU's, or for a core the machine's divided by its hardware
// threads or the devices, whichever are more. FAILED_PRECONDITION (TOPOLOGY_MISMATCH) if there is
// no such device (with the driver's reason), if there are fewer GPUs than `device_count` (cores may
// be fewer, and are then shared), if the GPUs are of several kinds, or if a GPU is split into
// instances; INVALID_ARGUMENT (SPEC_INVALID) for a cluster name that `Topology::Create` refuses, or
// a machine of unknown memory. The caller checks the name of the node.
absl::StatusOr<Topology> ToTopology(const NodeInventory& inventory, const TopologyOptions& options);

// Returns the device kind, `CPU <model>` or the GPUs' name. For GPUs FAILED_PRECONDITION
// (TOPOLOGY_MISMATCH) if there is none, or they are of several kinds or split.
absl::StatusOr<std::string> DeviceKind(const NodeInventory& inventory, DeviceType type);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_NODE_INVENTORY_H_
