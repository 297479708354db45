// A library with NVML's functions and made-up GPUs: two sockets of PCI bridges, NVLink between
// all. What it is made of comes from definitions of the build (CMakeLists.txt).

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "profiler-agent/inventory/nvml_types.h"

#ifndef FAKE_INIT_RESULT
#define FAKE_INIT_RESULT 0
#endif

namespace {

using parplan::nvml::Device;
using parplan::nvml::Result;

// Handles are places in this.
char devices[FAKE_GPU_COUNT + 1];

[[maybe_unused]] int IndexOf(Device device) {
  return static_cast<int>(static_cast<char*>(device) - devices);
}

}  // namespace

extern "C" {

Result nvmlInit_v2() { return FAKE_INIT_RESULT; }
Result nvmlShutdown() { return 0; }

#ifndef FAKE_INCOMPLETE
Result nvmlDeviceGetCount_v2(unsigned* count) {
  *count = FAKE_GPU_COUNT;
  return 0;
}
#endif

Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
#ifdef FAKE_LOST
  if (index == 1) return 15;
#endif
  *device = &devices[index];
  return 0;
}

Result nvmlDeviceGetName([[maybe_unused]] Device device, char* name, unsigned size) {
#ifdef FAKE_MIXED
  if (IndexOf(device) == 1) {
    std::snprintf(name, size, "NVIDIA H100 80GB HBM3");
    return 0;
  }
#endif
  std::snprintf(name, size, "NVIDIA H200");
  return 0;
}

Result nvmlDeviceGetMemoryInfo(Device, parplan::nvml::Memory* memory) {
  memory->total = 143771ULL << 20;
  memory->used = 600ULL << 20;
  memory->free = memory->total - memory->used;
  return 0;
}

#ifndef FAKE_MINIMAL

const char* nvmlErrorString(Result result) {
  return result == 15 ? "GPU is lost" : result == 0 ? "Success" : "Unknown Error";
}

Result nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "580.95.05");
  return 0;
}

Result nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return 0;
}

Result nvmlDeviceGetUUID(Device device, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-00000000-0000-0000-0000-00000000000%d", IndexOf(device));
  return 0;
}

Result nvmlDeviceGetPciInfo_v3(Device device, parplan::nvml::PciInfo* pci) {
  std::memset(pci, 0, sizeof(*pci));
  std::snprintf(pci->bus_id, sizeof(pci->bus_id), "00000000:%02X:00.0", 0x1b + IndexOf(device));
  return 0;
}

Result nvmlDeviceGetCudaComputeCapability(Device, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}

Result nvmlDeviceGetMaxClockInfo(Device, int type, unsigned* clock) {
  *clock = type == parplan::nvml::kClockSm ? 1980 : 3201;
  return 0;
}

Result nvmlDeviceGetClockInfo(Device, int, unsigned* clock) {
  *clock = 345;
  return 0;
}

// Only the name of older drivers.
Result nvmlDeviceGetCurrentClocksThrottleReasons(Device, unsigned long long* reasons) {
  *reasons = 1;
  return 0;
}

Result nvmlDeviceGetPowerUsage(Device, unsigned* milliwatts) {
  *milliwatts = 81500;
  return 0;
}

Result nvmlDeviceGetEnforcedPowerLimit(Device, unsigned* milliwatts) {
  *milliwatts = 700000;
  return 0;
}

Result nvmlDeviceGetTemperature(Device, int, unsigned* celsius) {
  *celsius = 31;
  return 0;
}

// Once the file that PARPLAN_FAKE_NVML_LOAD names is there, all GPUs are under load.
Result nvmlDeviceGetUtilizationRates(Device, parplan::nvml::Utilization* utilization) {
  *utilization = {0, 0};
  if (const char* const path = std::getenv("PARPLAN_FAKE_NVML_LOAD")) {
    if (std::FILE* const file = std::fopen(path, "r")) {
      std::fclose(file);
      utilization->gpu = 97;
    }
  }
  return 0;
}

Result nvmlDeviceGetComputeRunningProcesses_v3([[maybe_unused]] Device device, unsigned* count,
                                               [[maybe_unused]] parplan::nvml::ProcessInfo* infos) {
#ifdef FAKE_BUSY
  if (IndexOf(device) == 1) {
    const unsigned room = *count;
    *count = 1;
    if (room < 1) return parplan::nvml::kInsufficientSize;
    infos[0] = {4711, 1ULL << 30, 0, 0};
    return 0;
  }
#endif
#ifdef FAKE_POD
  // The view from a container: a process on each GPU, with an id of the node. Records the caller.
  if (const char* const path = std::getenv("PARPLAN_FAKE_NVML_NOTES")) {
    const unsigned room = *count;
    *count = 1;
    if (room < 1) return parplan::nvml::kInsufficientSize;
    infos[0] = {900001U + static_cast<unsigned>(IndexOf(device)), 1ULL << 30, 0, 0};
    if (std::FILE* const notes = std::fopen(path, "a")) {
      std::fputc('.', notes);
      std::fclose(notes);
    }
    return 0;
  }
#endif
  *count = 0;
  return 0;
}

Result nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, int* level) {
  *level = IndexOf(a) / 4 == IndexOf(b) / 4 ? 30 : 50;
  return 0;
}

// Capability 2 is NVLink; the pairs (0, 1), (2, 3) and so on have bridges, or all have switches.
Result nvmlDeviceGetP2PStatus(Device a, Device b, int capability, int* status) {
#ifdef FAKE_BRIDGES
  const bool is_linked = IndexOf(a) / 2 == IndexOf(b) / 2;
#else
  const bool is_linked = a != b;
#endif
  *status = capability == parplan::nvml::kPeerNvlink && is_linked ? 0 : 5;
  return 0;
}

Result nvmlDeviceGetNvLinkState(Device, unsigned link, unsigned* is_active) {
  *is_active = 1;
  return link < 18 ? 0 : 2;
}

Result nvmlDeviceGetMigMode(Device, unsigned* now, unsigned* later) {
  *now = *later = 0;
  return 0;
}

#endif  // FAKE_MINIMAL

}  // extern "C"
