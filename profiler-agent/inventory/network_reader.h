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
  // `InfiniBand` or `Ethernet` (RoCE).
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
  int numa_node = -1;
};

struct NetworkFacts {
  // RDMA ports ordered by device and port; interfaces ordered by name.
  std::vector<RdmaPort> rdma_ports;
  std::vector<NetworkInterface> interfaces;
};

// Reads the network devices below `sysfs_root`, usually `/sys`. Leaves out what cannot be read.
NetworkFacts ReadNetworks(const std::string& sysfs_root);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_NETWORK_READER_H_
