// The GPUs of this node, as its driver tells.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_GPU_READER_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_GPU_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profiler-agent/inventory/nvml_library.h"

namespace parplan {

// What stays as it is while the node runs. Numbers that the driver does not tell are 0,
// texts empty.
struct GpuDevice {
  // As the driver counts.
  int index = 0;
  // `device_kind` of topologies and profiles.
  std::string name;
  std::string uuid;
  // Such as `00000000:1B:00.0`.
  std::string pci_bus_id;
  int64_t memory_bytes = 0;
  // 90 stands for 9.0.
  int compute_capability = 0;
  int max_sm_clock_mhz = 0;
  int max_memory_clock_mhz = 0;
  // NVLinks that are up.
  int nvlink_count = 0;
  // Cut into instances (MIG), so that it is not one device.
  bool is_partitioned = false;
};

// What changes.
struct GpuState {
  int64_t used_memory_bytes = 0;
  int utilization_percent = 0;
  int sm_clock_mhz = 0;
  // The driver's bit set of what holds the clocks down; 0 for nothing, 1 for idleness.
  uint64_t clock_limits = 0;
  // Processes that compute on it. Absent where the driver does not tell.
  std::optional<std::vector<int64_t>> processes;
};

struct GpuSet {
  GpuAvailability availability = GpuAvailability::kFailed;
  // Why there are none, in one line; empty when there are.
  std::string message;
  std::string driver_version;
  // Newest CUDA the driver supports: 13000 stands for 13.0.
  int cuda_version = 0;
  std::vector<GpuDevice> devices;
  // [device]
  std::vector<GpuState> states;
  // [device][device] where the ways meet, as NVML's levels: 0 on one board, 10 to 30 under
  // PCI bridges, 40 in a NUMA node, 50 farther away. -1 where the driver does not tell.
  std::vector<std::vector<int>> common_ancestors;
};

struct GpuReaderOptions {
  std::string library = "libnvidia-ml.so.1";
  // Newest CUDA that is to run, as `GpuSet::cuda_version`; 0: any does.
  int required_cuda_version = 0;
};

// Never fails: a node without GPUs is one too, and says why.
GpuSet ReadGpus(const GpuReaderOptions& options = {});

// Why nobody should measure on these GPUs now, one line; empty when they are free: a process
// computes on one, more than 5 % of its time is used, or more than 2 % of its memory (a driver
// keeps some for itself).
std::string BusyGpuText(const GpuSet& gpus);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_GPU_READER_H_
