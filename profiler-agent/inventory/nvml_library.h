// NVIDIA's management library (NVML), loaded at run time. `ReadGpus` loads it for each call.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_NVML_LIBRARY_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_NVML_LIBRARY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "profiler-agent/inventory/nvml_types.h"

namespace parplan {

// Whether GPUs can be used, and if not, why. Each value has a message of its own for people.
enum class GpuAvailability {
  kAvailable,
  // The library file is missing: no driver is installed.
  kNoLibrary,
  // The library lacks functions that every release since 2016 has.
  kIncompleteLibrary,
  // The library is there, but the kernel module is not loaded.
  kNoDriver,
  // Library and kernel module are of different releases, as after an update without a reboot.
  kDriverMismatch,
  // The driver supports only an older CUDA than required.
  kDriverTooOld,
  // The driver works, but there is no GPU.
  kNoDevice,
  // Any other failure; the message holds the library's own text.
  kFailed,
};

// Returns the name of a value, for example `no_driver`.
const char* GpuAvailabilityName(GpuAvailability availability);

// The library's functions. The library is loaded and initialised while this object lives, and
// device handles are valid as long; any thread may call it. Each function pointer stands for the
// function of NVML that its comment names, or, where the library lacks that, for its predecessor
// (nvml_library.cc); NVIDIA's NVML API Reference documents arguments and results. `init` and
// `shutdown` are for this object alone.
class NvmlLibrary {
 public:
  // The result of `Load`.
  struct Loaded {
    // Null unless `availability` is kAvailable.
    std::unique_ptr<NvmlLibrary> library;
    // Whether the library can be used, and if not, what kind of fault it is.
    GpuAvailability availability = GpuAvailability::kFailed;
    // The fault and its remedy, on one line; empty if there is no fault.
    std::string message;
  };
  // Loads the library from `path`: a file, or a name that the dynamic linker looks up.
  static Loaded Load(const std::string& path);
  ~NvmlLibrary();

  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  // Returns the library's description of a result.
  std::string ErrorText(nvml::Result result) const;

  nvml::Result (*init)() = nullptr;                   // nvmlInit_v2
  nvml::Result (*shutdown)() = nullptr;               // nvmlShutdown
  nvml::Result (*device_count)(unsigned*) = nullptr;  // nvmlDeviceGetCount_v2
  // nvmlDeviceGetHandleByIndex_v2
  nvml::Result (*device_by_index)(unsigned, nvml::Device*) = nullptr;
  nvml::Result (*device_name)(nvml::Device, char*, unsigned) = nullptr;  // nvmlDeviceGetName
  nvml::Result (*device_memory)(nvml::Device, nvml::Memory*) = nullptr;  // nvmlDeviceGetMemoryInfo

  // Optional functions: null if this release of the library does not have them.
  const char* (*error_string)(nvml::Result) = nullptr;        // nvmlErrorString
  nvml::Result (*driver_version)(char*, unsigned) = nullptr;  // nvmlSystemGetDriverVersion
  nvml::Result (*cuda_version)(int*) = nullptr;               // nvmlSystemGetCudaDriverVersion_v2
  nvml::Result (*device_uuid)(nvml::Device, char*, unsigned) = nullptr;  // nvmlDeviceGetUUID
  nvml::Result (*device_pci)(nvml::Device, nvml::PciInfo*) = nullptr;    // nvmlDeviceGetPciInfo_v3
  // nvmlDeviceGetCudaComputeCapability
  nvml::Result (*device_capability)(nvml::Device, int*, int*) = nullptr;
  nvml::Result (*max_clock)(nvml::Device, int, unsigned*) = nullptr;  // nvmlDeviceGetMaxClockInfo
  nvml::Result (*current_clock)(nvml::Device, int, unsigned*) = nullptr;  // nvmlDeviceGetClockInfo
  // nvmlDeviceGetCurrentClocksEventReasons
  nvml::Result (*clock_limits)(nvml::Device, unsigned long long*) = nullptr;
  // nvmlDeviceGetPowerUsage
  nvml::Result (*power)(nvml::Device, unsigned*) = nullptr;
  // nvmlDeviceGetEnforcedPowerLimit
  nvml::Result (*power_limit)(nvml::Device, unsigned*) = nullptr;
  // nvmlDeviceGetTemperature
  nvml::Result (*temperature)(nvml::Device, int, unsigned*) = nullptr;
  // nvmlDeviceGetUtilizationRates
  nvml::Result (*utilization)(nvml::Device, nvml::Utilization*) = nullptr;
  // nvmlDeviceGetComputeRunningProcesses_v3
  nvml::Result (*processes)(nvml::Device, unsigned*, nvml::ProcessInfo*) = nullptr;
  // nvmlDeviceGetTopologyCommonAncestor
  nvml::Result (*common_ancestor)(nvml::Device, nvml::Device, int*) = nullptr;
  // nvmlDeviceGetP2PStatus
  nvml::Result (*peer_status)(nvml::Device, nvml::Device, int, int*) = nullptr;
  // nvmlDeviceGetNvLinkState
  nvml::Result (*nvlink_state)(nvml::Device, unsigned, unsigned*) = nullptr;
  nvml::Result (*mig_mode)(nvml::Device, unsigned*, unsigned*) = nullptr;  // nvmlDeviceGetMigMode

 private:
  explicit NvmlLibrary(void* handle) : handle_(handle) {}
  // Looks up all functions. Returns the name of the first required function that is missing, or an
  // empty string.
  std::string Resolve();

  void* const handle_;
  bool is_initialised_ = false;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_NVML_LIBRARY_H_
