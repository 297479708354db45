// Reads this node's GPUs from the NVIDIA driver. `ReadInventory` calls it for every inventory, and
// `MeasureNode` every second while GPUs are measured. `BusyText` and `PrintInventory` call
// `BusyGpuText`.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_GPU_READER_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_GPU_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profiler-agent/inventory/nvml_library.h"

namespace parplan {

// Facts about a GPU that do not change while the node runs. A number the driver does not report is
// 0, a text empty.
struct GpuDevice {
  // Index in the driver's order, by PCI address, whether or not all GPUs are visible.
  int index = 0;
  // `device_kind` of topologies and profiles.
  std::string name;
  std::string uuid;
  // PCI address, for example `00000000:1B:00.0`.
  std::string pci_bus_id;
  int64_t memory_bytes = 0;
  // Ten times the major version plus the minor version: 90 is 9.0.
  int compute_capability = 0;
  int max_sm_clock_mhz = 0;
  int max_memory_clock_mhz = 0;
  int64_t power_limit_milliwatts = 0;
  // Number of active NVLinks.
  int nvlink_count = 0;
  // Whether the GPU is split into instances (MIG) and so is not a single device.
  bool is_partitioned = false;
};

// The load of a GPU at one moment.
struct GpuState {
  // Memory in use, the share of the last sample period in which a kernel ran, and the clock of the
  // multiprocessors now.
  int64_t used_memory_bytes = 0;
  int utilization_percent = 0;
  int sm_clock_mhz = 0;
  // The driver's bit set of reasons that limit the clocks: 0 for none, 1 for an idle GPU.
  uint64_t clock_limits = 0;
  int64_t power_milliwatts = 0;
  int temperature_celsius = 0;
  // Ids of the processes that compute on the GPU; absent if the driver does not report them.
  std::optional<std::vector<int64_t>> processes;
};

// All GPUs that the driver shows to this process, as of one moment.
struct GpuSet {
  GpuAvailability availability = GpuAvailability::kFailed;
  // The reason why there are no GPUs, on one line; empty if there are.
  std::string message;
  std::string driver_version;
  // Newest CUDA version that the driver supports: 13000 is 13.0; 0 if it does not say.
  int cuda_version = 0;
  // All lists below are empty if there are no usable GPUs.
  std::vector<GpuDevice> devices;
  // [device]
  std::vector<GpuState> states;
  // [device][device]: level at which the paths of two GPUs meet, as NVML numbers them: 0 on one
  // board, 10 to 30 below PCI bridges, 40 in one NUMA node, 50 farther away. -1 if the driver does
  // not report it, 0 for a GPU with itself. Here and below devices count from 0 in `devices`.
  std::vector<std::vector<int>> common_ancestors;
  // [device][device]: whether NVLink connects two GPUs, directly or through switches; true for a
  // GPU with itself. Empty if the driver does not report it for each pair.
  std::vector<std::vector<bool>> nvlink_peers;
};

// The library to ask, and the GPUs that count.
struct GpuReaderOptions {
  std::string library = "libnvidia-ml.so.1";
  // CUDA version that the driver must support, as in `GpuSet::cuda_version`; 0 for any. A driver
  // that does not say its version passes.
  int required_cuda_version = 0;
  // The value of CUDA_VISIBLE_DEVICES, which NVML does not read: indices or beginnings of UUIDs,
  // separated by commas; as in CUDA, the first one that names no GPU ends the list, and none is
  // visible if one is named twice or the text is empty. A beginning that several UUIDs have names
  // none of them, nor do instances of a GPU (`MIG-...`). Absent: all GPUs. Devices are listed in
  // the order of the text. Indices are those of the driver, which are CUDA's where
  // CUDA_DEVICE_ORDER is PCI_BUS_ID or all GPUs are of one kind.
  std::optional<std::string> visible_devices;
};

// Reads all visible GPUs, loading NVML for the call alone. Never fails: on a node without usable
// GPUs `availability` and `message` say why.
GpuSet ReadGpus(const GpuReaderOptions& options = {});

// Returns the reasons not to measure on these GPUs, at the moment of `gpus.states`, on one line;
// empty if all are free or there are none. A GPU is busy if a process computes on it, if it was
// used for more than 5 % of the last sample period, or if more than 2 % of its memory is in use (a
// driver keeps a little for itself). GPUs have the driver's numbers (`GpuDevice::index`).
std::string BusyGpuText(const GpuSet& gpus);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_GPU_READER_H_
