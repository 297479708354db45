// The function that the plugin exports, and its back end.

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "executor/device/backend/plugin.h"
#include "executor/device/cuda/cuda_device.h"
#include "executor/device/cuda/cuda_status.h"
#include "executor/device/cuda/cudnn_attention.h"
#include "executor/device/cuda/device_code.h"
#include "executor/device/cuda/nccl_library.h"

namespace parplan::cuda {
namespace {

std::string Release(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

// Lists the libraries that are loaded, whose releases need not be those of the build. A library
// that is missing or does not report its release is left out.
std::vector<std::pair<std::string, std::string>> Libraries() {
  std::vector<std::pair<std::string, std::string>> libraries;
  int version = 0;
  if (::cudaRuntimeGetVersion(&version) == cudaSuccess) {
    libraries.emplace_back("cuda_runtime", Release(version / 1000, version % 1000 / 10, 0));
  }
  if (OpenNccl().ok() && Nccl().ncclGetVersion(&version) == ncclSuccess) {
    libraries.emplace_back("nccl", Release(version / 10000, version % 10000 / 100, version % 100));
  }
  // MAJOR * 10000 + MINOR * 100 + PATCH since 11, before with a factor of 1000.
  const size_t cublas = ::cublasLtGetVersion();
  if (cublas >= 100000) {
    libraries.emplace_back("cublaslt", Release(static_cast<int>(cublas / 10000),
                                               static_cast<int>(cublas % 10000 / 100),
                                               static_cast<int>(cublas % 100)));
  }
  std::string reason;
  if (const auto cudnn = static_cast<int>(CudnnVersion(reason)); cudnn > 0) {
    libraries.emplace_back("cudnn", Release(cudnn / 10000, cudnn % 10000 / 100, cudnn % 100));
  }
  return libraries;
}

// Returns why the plugin does not serve a device; empty if it does, or if CUDA does not say. Makes
// no context.
std::string MissingCode(int device) {
  int major = 0;
  int minor = 0;
  std::array<char, 32> bus = {};
  if (::cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      ::cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
      ::cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) != cudaSuccess) {
    static_cast<void>(::cudaGetLastError());
    return "";
  }
  const int capability = major * 10 + minor;
  if (HasCodeFor(PARPLAN_CUDA_ARCHITECTURES, capability)) return "";
  return NoCodeText(absl::StrCat("GPU ", device, " (", bus.data(), ")"), capability,
                    PARPLAN_CUDA_ARCHITECTURES);
}

class CudaBackend : public DeviceBackend {
 public:
  CudaBackend(int device_count, const BackendOptions& options)
      : device_count_(device_count), groups_(options.groups), attention_(options.attention) {}

  const std::string& name() const override { return name_; }
  int device_count() const override { return device_count_; }

  absl::StatusOr<DeviceFacts> Describe(int device) const override {
    cudaDeviceProp properties;
    PARPLAN_RETURN_IF_CUDA_ERROR(::cudaGetDeviceProperties(&properties, device));
    return DeviceFacts{.kind = properties.name,
                       .memory = Bytes::Of(static_cast<int64_t>(properties.totalGlobalMem)),
                       .libraries = Libraries()};
  }

  absl::StatusOr<std::unique_ptr<Device>> Open(int device) override {
    if (device < 0 || device >= device_count_) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", device, ": the cuda back end has ", device_count_, " devices"));
    }
    const std::string missing = MissingCode(device);
    if (!missing.empty()) return absl::FailedPreconditionError(missing);
    return CudaDevice::Open(device, groups_, attention_);
  }

 private:
  const std::string name_ = "cuda";
  const int device_count_;
  const GroupTransport groups_;
  const AttentionChoice attention_;
};

// CUDA reads its variables at its first call. Streams that share one of its queues wait for each
// other; by default there are 8 queues, and a rank of an interleaved pipeline has more streams. 32
// is the most that there can be. Any number is right, since work is queued in the order of the
// program, so a number that is set is left alone.
void SetEnvironment() {
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  // CUDA numbers GPUs as NVML does, whose facts the agent has, not the fastest first.
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);
  // Collectives connect when a communicator is made, not at their first call within a step.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0);
  // Between ranks that are threads of one process, as in tests, NCCL may let a GPU write into the
  // other's arrays, which the other cannot reach: `CudaMemory` maps them for their own GPU alone.
  ::setenv("NCCL_P2P_DIRECT_DISABLE", "1", /*overwrite=*/0);
}

PluginFindings Look() {
  SetEnvironment();
  PluginFindings findings;
  int driver = 0;
  int runtime = 0;
  // Without a driver the version is 0.
  static_cast<void>(::cudaDriverGetVersion(&driver));
  static_cast<void>(::cudaRuntimeGetVersion(&runtime));
  findings.driver_version = driver;
  findings.runtime_version = runtime;
  int count = 0;
  const cudaError_t error = ::cudaGetDeviceCount(&count);
  // The findings contain the error; CUDA must not return it again from a later call.
  static_cast<void>(::cudaGetLastError());
  if (error == cudaErrorInsufficientDriver) {
    findings.state = driver == 0 ? PluginState::kNoDriver : PluginState::kDriverTooOld;
  } else if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    findings.state = PluginState::kNoDevice;
  } else if (error == cudaSuccess) {
    // A node may have a small GPU for its screen beside those that compute.
    std::string missing;
    for (int device = 0; device < count; ++device) {
      missing = MissingCode(device);
      if (missing.empty()) break;
    }
    findings.state = missing.empty() ? PluginState::kReady : PluginState::kFailed;
    std::snprintf(findings.text, sizeof(findings.text), "%s", missing.c_str());
  } else {
    std::snprintf(findings.text, sizeof(findings.text), "%s, %s", cudaGetErrorName(error),
                  cudaGetErrorString(error));
  }
  return findings;
}

DeviceBackend* Open(const BackendOptions& options, PluginFindings& findings) {
  SetEnvironment();
  int count = 0;
  const cudaError_t error = ::cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    std::snprintf(findings.text, sizeof(findings.text), "%s", cudaGetErrorString(error));
    return nullptr;
  }
  return new CudaBackend(count, options);
}

}  // namespace
}  // namespace parplan::cuda

extern "C" __attribute__((visibility("default"))) const parplan::DevicePlugin*
parplan_device_plugin() {
  static const parplan::DevicePlugin plugin = {.abi = parplan::kPluginAbi,
                                               .release = parplan::PluginRelease(),
                                               .look = parplan::cuda::Look,
                                               .open = parplan::cuda::Open};
  return &plugin;
}
