// Reads this node's processor and memory. `ReadInventory` calls `ReadHost`, and `BusyText`
// (node_load.h) calls `HostLoad`.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_HOST_READER_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_HOST_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace parplan {

// One NUMA node: a part of the memory and the cores next to it.
struct NumaNode {
  int64_t memory_bytes = 0;
  int core_count = 0;
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

// The processor and memory of a node.
struct HostFacts {
  // Model name as the processor reports it, for example `Intel(R) Xeon(R) Processor`; `unknown` if
  // it has none.
  std::string cpu_model;
  int socket_count = 0;
  // Cores, for this machine those of which its control group's cpuset has a thread; the hardware
  // threads if hwloc finds no cores.
  int core_count = 0;
  // Hardware threads. For this machine, only those that this process may be bound to.
  int thread_count = 0;
  // Memory of the whole machine, whatever limit a container has.
  int64_t memory_bytes = 0;
  // NUMA nodes in the order of hwloc, usually that of the operating system's numbers.
  std::vector<NumaNode> numa_nodes;
  // Release of the kernel, for example `6.1.0-18-amd64`; empty if a topology file was read.
  std::string kernel;
};

// The machine to read.
struct HostReaderOptions {
  // File written by `lstopo file.xml`, read instead of this machine; empty for this machine.
  std::string topology_file;
};

// Reads the processor and memory. INTERNAL with no `Reason` if hwloc fails; INVALID_ARGUMENT
// (SPEC_INVALID) naming `topology_file` if that file cannot be read or does not describe a machine.
absl::StatusOr<HostFacts> ReadHost(const HostReaderOptions& options = {});

// Returns the load average of the last minute (getloadavg): the mean number of processes that ran
// or wanted to run, 2 on a machine with two busy cores. 0 if it cannot be read.
double HostLoad();

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_HOST_READER_H_
