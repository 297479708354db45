// What connects this node to others, as the kernel's sysfs tells.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_NETWORK_READER_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_NETWORK_READER_H_

#include <string>
#include <vector>

namespace parplan {

// A port of a network device with RDMA.
struct RdmaPort {
  // Such as `mlx5_0`.
  std::string device;
  int port = 0;
  // `InfiniBand` or `Ethernet` (RoCE).
  std::string link_layer;
  // 0 where the kernel does not tell.
  double gigabits_per_second = 0.0;
  bool is_active = false;
  // -1 where there is none.
  int numa_node = -1;
};

// A network interface with hardware behind it.
struct NetworkInterface {
  // Such as `eth0`.
  std::string name;
  // 0 where it is down or does not know.
  int megabits_per_second = 0;
  bool is_up = false;
  int numa_node = -1;
};

struct NetworkFacts {
  // By device and port, and by name.
  std::vector<RdmaPort> rdma_ports;
  std::vector<NetworkInterface> interfaces;
};

// `sysfs_root`: where sysfs is, usually `/sys`. What can't be read is left out.
NetworkFacts ReadNetworks(const std::string& sysfs_root);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_NETWORK_READER_H_
