#include "profiler-agent/inventory/nvml_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

NvmlLibrary::Loaded Failure(GpuAvailability availability, std::string message) {
  NvmlLibrary::Loaded loaded;
  loaded.availability = availability;
  loaded.message = std::move(message);
  return loaded;
}

std::string DynamicLinkerText() {
  const char* const text = ::dlerror();
  return text == nullptr ? "unknown error of the dynamic linker" : text;
}

}  // namespace

const char* GpuAvailabilityName(GpuAvailability availability) {
  switch (availability) {
    case GpuAvailability::kAvailable:
      return "available";
    case GpuAvailability::kNoLibrary:
      return "no_library";
    case GpuAvailability::kIncompleteLibrary:
      return "incomplete_library";
    case GpuAvailability::kNoDriver:
      return "no_driver";
    case GpuAvailability::kDriverMismatch:
      return "driver_mismatch";
    case GpuAvailability::kDriverTooOld:
      return "driver_too_old";
    case GpuAvailability::kNoDevice:
      return "no_device";
    case GpuAvailability::kFailed:
      return "failed";
  }
  return "failed";
}

NvmlLibrary::Loaded NvmlLibrary::Load(const std::string& path) {
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Failure(GpuAvailability::kNoLibrary,
                   absl::StrCat("no NVIDIA driver is installed: ", DynamicLinkerText()));
  }
  std::unique_ptr<NvmlLibrary> library(new NvmlLibrary(handle));
  const std::string missing = library->Resolve();
  if (!missing.empty()) {
    return Failure(
        GpuAvailability::kIncompleteLibrary,
        absl::StrCat(path, " has no ", missing, "; install a driver from 2016 or later"));
  }
  const nvml::Result result = library->init();
  if (result == nvml::kDriverNotLoaded) {
    return Failure(GpuAvailability::kNoDriver,
                   "the NVIDIA driver is not loaded into the kernel; load it (modprobe nvidia), or "
                   "give the container access to the GPUs");
  }
  if (result == nvml::kLibraryDriverMismatch) {
    return Failure(GpuAvailability::kDriverMismatch,
                   absl::StrCat("the NVIDIA driver in the kernel is of another release than ", path,
                                " (", library->ErrorText(result), "); reboot after the update"));
  }
  if (result != nvml::kSuccess) {
    return Failure(GpuAvailability::kFailed,
                   absl::StrCat("nvmlInit_v2 failed: ", library->ErrorText(result)));
  }
  library->is_initialised_ = true;
  Loaded loaded;
  loaded.library = std::move(library);
  loaded.availability = GpuAvailability::kAvailable;
  return loaded;
}

NvmlLibrary::~NvmlLibrary() {
  if (is_initialised_) shutdown();
  ::dlclose(handle_);
}

std::string NvmlLibrary::ErrorText(nvml::Result result) const {
  const char* const text = error_string == nullptr ? nullptr : error_string(result);
  return text == nullptr ? absl::StrCat("NVML error ", result) : text;
}

std::string NvmlLibrary::Resolve() {
  std::string missing;
  const auto find = [this](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(handle_, name));
    return function != nullptr;
  };
  const auto require = [&](auto& function, const char* name) {
    if (!find(function, name) && missing.empty()) missing = name;
  };
  require(init, "nvmlInit_v2");
  require(shutdown, "nvmlShutdown");
  require(device_count, "nvmlDeviceGetCount_v2");
  require(device_by_index, "nvmlDeviceGetHandleByIndex_v2");
  require(device_name, "nvmlDeviceGetName");
  require(device_memory, "nvmlDeviceGetMemoryInfo");
  find(error_string, "nvmlErrorString");
  find(driver_version, "nvmlSystemGetDriverVersion");
  find(cuda_version, "nvmlSystemGetCudaDriverVersion_v2") ||
      find(cuda_version, "nvmlSystemGetCudaDriverVersion");
  find(device_uuid, "nvmlDeviceGetUUID");
  find(device_pci, "nvmlDeviceGetPciInfo_v3");
  find(device_capability, "nvmlDeviceGetCudaComputeCapability");
  find(max_clock, "nvmlDeviceGetMaxClockInfo");
  find(current_clock, "nvmlDeviceGetClockInfo");
  find(clock_limits, "nvmlDeviceGetCurrentClocksEventReasons") ||
      find(clock_limits, "nvmlDeviceGetCurrentClocksThrottleReasons");
  find(power, "nvmlDeviceGetPowerUsage");
  find(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  find(temperature, "nvmlDeviceGetTemperature");
  find(utilization, "nvmlDeviceGetUtilizationRates");
  find(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  find(common_ancestor, "nvmlDeviceGetTopologyCommonAncestor");
  find(peer_status, "nvmlDeviceGetP2PStatus");
  find(nvlink_state, "nvmlDeviceGetNvLinkState");
  find(mig_mode, "nvmlDeviceGetMigMode");
  return missing;
}

}  // namespace parplan
