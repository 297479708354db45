// Reads this node's network devices from the kernel's sysfs. `ReadInventory` calls it.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_NETWORK_READER_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_NETWORK_READER_H_

#include <string>
#include <vector>

namespace parplan {

// A port of an RDMA network device.
struct RdmaPort {
  // Device name, for example `mlx5_0`.
  std::string device;
  int port = 0;
  // `InfiniBand` or `Ethernet` (RoCE); empty if the kernel does not say.
  std::string link_layer;
  // Link rate; 0 if the kernel does not report it.
  double gigabits_per_second = 0.0;
  bool is_active = false;
  // NUMA node of the device; -1 if there is none.
  int numa_node = -1;
};

// A network interface backed by hardware.
struct NetworkInterface {
  // Interface name, for example `eth0`.
  std::string name;
  // Link rate; 0 if the interface is down or does not report it.
  int megabits_per_second = 0;
  bool is_up = false;
  // NUMA node of the interface's device; -1 if there is none.
  int numa_node = -1;
};

// All network devices of a node.
struct NetworkFacts {
  // RDMA ports ordered by device and port, and interfaces ordered by name, all as texts: `mlx5_10`
  // precedes `mlx5_2`.
  std::vector<RdmaPort> rdma_ports;
  std::vector<NetworkInterface> interfaces;
};

// Reads the network devices below `sysfs_root`, usually `/sys`. A device whose folder exists is
// listed even if its files cannot be read, with the values above for what is not known; a list is
// empty if the kernel shows no such devices. Virtual interfaces, such as loopback, are left out.
NetworkFacts ReadNetworks(const std::string& sysfs_root);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_NETWORK_READER_H_
