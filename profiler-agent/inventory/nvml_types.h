// The part of the C interface of NVIDIA's management library (NVML) that the agent uses, declared
// here because the library comes with the driver but its header with a toolkit that agents are
// built without. Layouts and values are those that NVIDIA documents as stable; a comment gives
// NVIDIA's name. `NvmlLibrary` (nvml_library.h), `ReadGpus` and `ToTopology` use them.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_NVML_TYPES_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_NVML_TYPES_H_

namespace parplan::nvml {

// nvmlReturn_t.
using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kNotSupported = 3;
inline constexpr Result kNoPermission = 4;
inline constexpr Result kInsufficientSize = 7;
inline constexpr Result kDriverNotLoaded = 9;
inline constexpr Result kLibraryDriverMismatch = 18;

// nvmlDevice_t: owned by the library, valid until nvmlShutdown.
using Device = void*;

// nvmlMemory_t, in bytes.
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// nvmlUtilization_t, in percent of the last sample period.
struct Utilization {
  unsigned gpu;
  unsigned memory;
};

// nvmlPciInfo_t of the functions that end in _v3.
struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char bus_id[32];
};

// nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

// nvmlClockType_t.
inline constexpr int kClockSm = 1;
inline constexpr int kClockMemory = 2;

// nvmlTemperatureSensors_t.
inline constexpr int kTemperatureGpu = 0;

// nvmlGpuTopologyLevel_t: the level at which the paths from two devices meet.
inline constexpr int kLevelSystem = 50;

// nvmlGpuP2PCapsIndex_t: whether NVLink connects two devices, directly or through switches; and
// the nvmlGpuP2PStatus_t that says yes.
inline constexpr int kPeerNvlink = 2;
inline constexpr int kPeerOk = 0;

// NVML_NVLINK_MAX_LINKS.
inline constexpr unsigned kMaxNvlinkCount = 18;

}  // namespace parplan::nvml

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_NVML_TYPES_H_
