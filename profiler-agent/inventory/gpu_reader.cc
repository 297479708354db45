#include "profiler-agent/inventory/gpu_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace parplan {
namespace {

// The longest of NVML's texts that are read here (NVML_DEVICE_NAME_V2_BUFFER_SIZE).
constexpr unsigned kTextBytes = 96;
// A GPU is in use above this utilisation, or if more than one part in so many of its memory is:
// what the driver itself uses is less. Not measured.
constexpr int kBusyUtilizationPercent = 5;
constexpr int64_t kFreeMemoryShare = 50;

GpuSet Without(GpuSet gpus, GpuAvailability availability, std::string message) {
  gpus.availability = availability;
  gpus.message = std::move(message);
  gpus.devices.clear();
  gpus.states.clear();
  gpus.common_ancestors.clear();
  gpus.nvlink_peers.clear();
  return gpus;
}

// Returns the text that a function of the library writes; empty if it fails or is missing.
template <typename Function, typename... Arguments>
std::string TextOf(Function function, Arguments... arguments) {
  if (function == nullptr) return "";
  char text[kTextBytes] = {};
  if (function(arguments..., text, kTextBytes) != nvml::kSuccess) return "";
  return std::string(text, strnlen(text, kTextBytes));
}

template <typename Function, typename Value, typename... Arguments>
Value ValueOf(Function function, Value otherwise, Arguments... arguments) {
  Value value = otherwise;
  if (function == nullptr || function(arguments..., &value) != nvml::kSuccess) return otherwise;
  return value;
}

int NvlinkCount(const NvmlLibrary& library, nvml::Device device) {
  int count = 0;
  for (unsigned link = 0; link < nvml::kMaxNvlinkCount; ++link) {
    count += ValueOf(library.nvlink_state, 0U, device, link) == 1 ? 1 : 0;
  }
  return count;
}

std::optional<std::vector<int64_t>> ProcessesOn(const NvmlLibrary& library, nvml::Device device) {
  if (library.processes == nullptr) return std::nullopt;
  // Spare entries, since processes may start between the two calls.
  constexpr unsigned kSpare = 16;
  std::vector<nvml::ProcessInfo> found;
  unsigned count = 0;
  nvml::Result result = library.processes(device, &count, nullptr);
  for (int attempt = 0; attempt < 3 && result == nvml::kInsufficientSize; ++attempt) {
    count += kSpare;
    found.resize(count);
    result = library.processes(device, &count, found.data());
  }
  if (result != nvml::kSuccess) return std::nullopt;
  std::vector<int64_t> processes;
  for (size_t i = 0; i < std::min<size_t>(count, found.size()); ++i) {
    processes.push_back(found[i].pid);
  }
  std::sort(processes.begin(), processes.end());
  return processes;
}

nvml::Result ReadDevice(const NvmlLibrary& library, nvml::Device handle, GpuDevice& device,
                        GpuState& state) {
  char name[kTextBytes] = {};
  nvml::Result result = library.device_name(handle, name, kTextBytes);
  if (result != nvml::kSuccess) return result;
  device.name = std::string(name, strnlen(name, kTextBytes));
  nvml::Memory memory = {};
  result = library.device_memory(handle, &memory);
  if (result != nvml::kSuccess) return result;
  device.memory_bytes = static_cast<int64_t>(memory.total);
  device.uuid = TextOf(library.device_uuid, handle);
  nvml::PciInfo pci = {};
  if (library.device_pci != nullptr && library.device_pci(handle, &pci) == nvml::kSuccess) {
    device.pci_bus_id = std::string(pci.bus_id, strnlen(pci.bus_id, sizeof(pci.bus_id)));
  }
  int major = 0;
  int minor = 0;
  if (library.device_capability != nullptr &&
      library.device_capability(handle, &major, &minor) == nvml::kSuccess) {
    device.compute_capability = major * 10 + minor;
  }
  device.max_sm_clock_mhz =
      static_cast<int>(ValueOf(library.max_clock, 0U, handle, nvml::kClockSm));
  device.max_memory_clock_mhz =
      static_cast<int>(ValueOf(library.max_clock, 0U, handle, nvml::kClockMemory));
  device.power_limit_milliwatts = ValueOf(library.power_limit, 0U, handle);
  device.nvlink_count = NvlinkCount(library, handle);
  unsigned mig_now = 0;
  unsigned mig_later = 0;
  device.is_partitioned = library.mig_mode != nullptr &&
                          library.mig_mode(handle, &mig_now, &mig_later) == nvml::kSuccess &&
                          mig_now == 1;

  state.used_memory_bytes = static_cast<int64_t>(memory.used);
  const nvml::Utilization utilization =
      ValueOf(library.utilization, nvml::Utilization{0, 0}, handle);
  state.utilization_percent = static_cast<int>(utilization.gpu);
  state.sm_clock_mhz = static_cast<int>(ValueOf(library.current_clock, 0U, handle, nvml::kClockSm));
  state.clock_limits = ValueOf(library.clock_limits, 0ULL, handle);
  state.power_milliwatts = ValueOf(library.power, 0U, handle);
  state.temperature_celsius =
      static_cast<int>(ValueOf(library.temperature, 0U, handle, nvml::kTemperatureGpu));
  state.processes = ProcessesOn(library, handle);
  return nvml::kSuccess;
}

// Removes the devices that are not visible, and orders the others as `visible` does.
void KeepVisible(const std::string& visible, GpuSet& gpus, std::vector<nvml::Device>& handles) {
  std::vector<size_t> kept;
  for (const absl::string_view entry : absl::StrSplit(visible, ',')) {
    const absl::string_view name = absl::StripAsciiWhitespace(entry);
    size_t found = 0;
    int match_count = 0;
    for (size_t i = 0; i < gpus.devices.size(); ++i) {
      const bool is_named = absl::StartsWith(name, "GPU-")
                                ? absl::StartsWith(absl::AsciiStrToLower(gpus.devices[i].uuid),
                                                   absl::AsciiStrToLower(name))
                                : name == absl::StrCat(i);
      if (!is_named) continue;
      found = i;
      ++match_count;
    }
    if (match_count != 1) break;
    // CUDA has no devices at all where one is named twice.
    if (std::find(kept.begin(), kept.end(), found) != kept.end()) {
      kept.clear();
      break;
    }
    kept.push_back(found);
  }
  GpuSet all = std::move(gpus);
  const std::vector<nvml::Device> all_handles = std::move(handles);
  gpus = GpuSet{.driver_version = all.driver_version, .cuda_version = all.cuda_version};
  handles.clear();
  for (const size_t i : kept) {
    gpus.devices.push_back(std::move(all.devices[i]));
    gpus.states.push_back(std::move(all.states[i]));
    handles.push_back(all_handles[i]);
  }
}

// Reads how pairs of GPUs are connected.
void ReadPairs(const NvmlLibrary& library, const std::vector<nvml::Device>& handles, GpuSet& gpus) {
  const size_t count = handles.size();
  gpus.common_ancestors.assign(count, std::vector<int>(count, 0));
  gpus.nvlink_peers.assign(count, std::vector<bool>(count, true));
  bool is_reported = library.peer_status != nullptr;
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < count; ++j) {
      if (i == j) continue;
      gpus.common_ancestors[i][j] = ValueOf(library.common_ancestor, -1, handles[i], handles[j]);
      int status = 0;
      is_reported = is_reported && library.peer_status(handles[i], handles[j], nvml::kPeerNvlink,
                                                       &status) == nvml::kSuccess;
      gpus.nvlink_peers[i][j] = status == nvml::kPeerOk;
    }
  }
  if (!is_reported) gpus.nvlink_peers.clear();
}

}  // namespace

GpuSet ReadGpus(const GpuReaderOptions& options) {
  const NvmlLibrary::Loaded loaded = NvmlLibrary::Load(options.library);
  GpuSet gpus;
  if (loaded.library == nullptr) return Without(gpus, loaded.availability, loaded.message);
  const NvmlLibrary& library = *loaded.library;
  gpus.driver_version = TextOf(library.driver_version);
  gpus.cuda_version = ValueOf(library.cuda_version, 0);

  unsigned count = 0;
  nvml::Result result = library.device_count(&count);
  if (result != nvml::kSuccess) {
    return Without(gpus, GpuAvailability::kFailed,
                   absl::StrCat("cannot count the GPUs: ", library.ErrorText(result)));
  }
  if (count == 0) {
    return Without(gpus, GpuAvailability::kNoDevice, "the NVIDIA driver is loaded, but has no GPU");
  }
  if (gpus.cuda_version != 0 && gpus.cuda_version < options.required_cuda_version) {
    return Without(gpus, GpuAvailability::kDriverTooOld,
                   absl::StrCat("driver ", gpus.driver_version, " supports CUDA ",
                                gpus.cuda_version / 1000, ".", gpus.cuda_version % 1000 / 10,
                                "; CUDA ", options.required_cuda_version / 1000, ".",
                                options.required_cuda_version % 1000 / 10,
                                " is required: install a newer driver"));
  }
  std::vector<nvml::Device> handles(count, nullptr);
  for (unsigned i = 0; i < count; ++i) {
    GpuDevice device;
    GpuState state;
    device.index = static_cast<int>(i);
    result = library.device_by_index(i, &handles[i]);
    if (result == nvml::kSuccess) result = ReadDevice(library, handles[i], device, state);
    if (result != nvml::kSuccess) {
      return Without(gpus, GpuAvailability::kFailed,
                     absl::StrCat("GPU ", i, " does not answer: ", library.ErrorText(result)));
    }
    gpus.devices.push_back(std::move(device));
    gpus.states.push_back(std::move(state));
  }
  if (options.visible_devices.has_value()) {
    KeepVisible(*options.visible_devices, gpus, handles);
    if (gpus.devices.empty()) {
      return Without(gpus, GpuAvailability::kNoDevice,
                     absl::StrCat("CUDA_VISIBLE_DEVICES is '", *options.visible_devices,
                                  "', which names none of the node's ", count, " GPUs"));
    }
  }
  ReadPairs(library, handles, gpus);
  gpus.availability = GpuAvailability::kAvailable;
  return gpus;
}

std::string BusyGpuText(const GpuSet& gpus) {
  std::vector<std::string> reasons;
  for (size_t i = 0; i < gpus.states.size(); ++i) {
    const GpuState& state = gpus.states[i];
    const int index = gpus.devices[i].index;
    if (state.processes.has_value() && !state.processes->empty()) {
      reasons.push_back(absl::StrCat("GPU ", index, " is used by process ",
                                     absl::StrJoin(*state.processes, ", ")));
    } else if (state.utilization_percent > kBusyUtilizationPercent) {
      reasons.push_back(
          absl::StrCat("GPU ", index, " is busy ", state.utilization_percent, " % of the time"));
    } else if (state.used_memory_bytes > gpus.devices[i].memory_bytes / kFreeMemoryShare) {
      reasons.push_back(
          absl::StrCat("GPU ", index, " has ", state.used_memory_bytes, " bytes in use"));
    }
  }
  return absl::StrJoin(reasons, "; ");
}

}  // namespace parplan
