// The processor and memory of this node.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_HOST_READER_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_HOST_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace parplan {

struct NumaNode {
  int64_t memory_bytes = 0;
  int core_count = 0;
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

struct HostFacts {
  // As the processor calls itself, for example `Intel(R) Xeon(R) Processor`; `unknown` where
  // it has no name.
  std::string cpu_model;
  int socket_count = 0;
  int core_count = 0;
  // Hardware threads; of this machine, those that this process may be bound to.
  int thread_count = 0;
  int64_t memory_bytes = 0;
  // In the order of the operating system's numbers.
  std::vector<NumaNode> numa_nodes;
  // Release of the kernel, such as `6.1.0-18-amd64`.
  std::string kernel;
};

struct HostReaderOptions {
  // A machine that `lstopo file.xml` has written, in place of this one. Empty: this one.
  std::string topology_file;
};

// INTERNAL when hwloc fails, INVALID_ARGUMENT naming `topology_file` where that is no machine.
absl::StatusOr<HostFacts> ReadHost(const HostReaderOptions& options = {});

// Share of the last minute in which processes wanted a core, summed over cores: 2 on a machine
// with two busy cores. From /proc/loadavg.
double HostLoad();

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_HOST_READER_H_
