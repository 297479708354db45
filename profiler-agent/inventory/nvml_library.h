// NVIDIA's management library, found when the program runs.

#ifndef PARPLAN_PROFILER_AGENT_INVENTORY_NVML_LIBRARY_H_
#define PARPLAN_PROFILER_AGENT_INVENTORY_NVML_LIBRARY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "profiler-agent/inventory/nvml_types.h"

namespace parplan {

// Why there are no GPUs to be used, or that there are. Each is another line for people.
enum class GpuAvailability {
  kAvailable,
  // The library's file is not there: no driver is installed.
  kNoLibrary,
  // It lacks functions every release has had for years.
  kIncompleteLibrary,
  // The library is there, the kernel's part is not loaded.
  kNoDriver,
  // Library and kernel's part are of different releases, as after an update without reboot.
  kDriverMismatch,
  // The driver supports an older CUDA than what is to run.
  kDriverTooOld,
  // All is well, but there is no GPU.
  kNoDevice,
  // Anything else; the message has the library's own text.
  kFailed,
};

// For example `no_driver`.
const char* GpuAvailabilityName(GpuAvailability availability);

// The library's functions. A pointer that may be null says so. Loaded and initialised while
// this lives; any thread may call it.
class NvmlLibrary {
 public:
  struct Loaded {
    // Null unless `availability` is kAvailable.
    std::unique_ptr<NvmlLibrary> library;
    GpuAvailability availability = GpuAvailability::kFailed;
    // One line, what is wrong and what to do; empty when all is well.
    std::string message;
  };
  // `path`: a file, or a name that the dynamic linker looks for.
  static Loaded Load(const std::string& path);
  ~NvmlLibrary();

  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  // The library's words for a result.
  std::string ErrorText(nvml::Result result) const;

  nvml::Result (*init)() = nullptr;
  nvml::Result (*shutdown)() = nullptr;
  nvml::Result (*device_count)(unsigned*) = nullptr;
  nvml::Result (*device_by_index)(unsigned, nvml::Device*) = nullptr;
  nvml::Result (*device_name)(nvml::Device, char*, unsigned) = nullptr;
  nvml::Result (*device_memory)(nvml::Device, nvml::Memory*) = nullptr;

  // Null where the library is too old or too new for them.
  const char* (*error_string)(nvml::Result) = nullptr;
  nvml::Result (*driver_version)(char*, unsigned) = nullptr;
  nvml::Result (*cuda_version)(int*) = nullptr;
  nvml::Result (*device_uuid)(nvml::Device, char*, unsigned) = nullptr;
  nvml::Result (*device_pci)(nvml::Device, nvml::PciInfo*) = nullptr;
  nvml::Result (*device_capability)(nvml::Device, int*, int*) = nullptr;
  nvml::Result (*max_clock)(nvml::Device, int, unsigned*) = nullptr;
  nvml::Result (*current_clock)(nvml::Device, int, unsigned*) = nullptr;
  nvml::Result (*clock_limits)(nvml::Device, unsigned long long*) = nullptr;
  nvml::Result (*utilization)(nvml::Device, nvml::Utilization*) = nullptr;
  nvml::Result (*processes)(nvml::Device, unsigned*, nvml::ProcessInfo*) = nullptr;
  nvml::Result (*common_ancestor)(nvml::Device, nvml::Device, int*) = nullptr;
  nvml::Result (*nvlink_state)(nvml::Device, unsigned, unsigned*) = nullptr;
  nvml::Result (*mig_mode)(nvml::Device, unsigned*, unsigned*) = nullptr;

 private:
  explicit NvmlLibrary(void* handle) : handle_(handle) {}
  // Fills the pointers; the name of a function that must be there and is not, or empty.
  std::string Resolve();

  void* const handle_;
  bool is_initialised_ = false;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_INVENTORY_NVML_LIBRARY_H_
