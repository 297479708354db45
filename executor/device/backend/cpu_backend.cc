// The back end whose devices are cores.

#include <sched.h>

#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/system/steady_clock.h"
#include "executor/device/backend/context_memory.h"
#include "executor/device/backend/device_backend.h"
#include "executor/device/backend/machine.h"
#include "executor/device/kernels/kernel_libraries.h"

namespace parplan {
namespace {

class CpuStopwatch : public Stopwatch {
 public:
  void Start() override { start_ = SteadyNow(); }
  void Stop() override { stop_ = SteadyNow(); }
  absl::StatusOr<absl::Duration> Elapsed() override { return stop_ - start_; }

 private:
  absl::Duration start_;
  absl::Duration stop_;
};

class CpuDevice : public Device {
 public:
  absl::StatusOr<std::unique_ptr<LayerKernels>> MakeKernels(ElementType type) override {
    std::unique_ptr<LayerKernels> kernels = MakeCpuKernels(type);
    if (kernels == nullptr) {
      return absl::UnimplementedError("the cpu back end computes in fp32 and fp64 only");
    }
    return kernels;
  }
  DeviceMemory& memory() override { return *memory_; }
  std::unique_ptr<Stopwatch> MakeStopwatch() override { return MakeCpuStopwatch(); }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(RankContext& job, const std::string& name,
                                                          const std::vector<int>& ranks) override {
    return job.MakeGroup(name, ranks);
  }
  absl::Status CopyFromHost(const void* host, void* device, Bytes size) override {
    std::memcpy(device, host, static_cast<size_t>(size.count()));
    return absl::OkStatus();
  }
  absl::Status CopyToHost(const void* device, void* host, Bytes size) override {
    std::memcpy(host, device, static_cast<size_t>(size.count()));
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::StatusOr<DeviceMemoryUse> MemoryUse() override {
    return DeviceMemoryUse{
        .context = CpuContextMemory(), .arrays_peak = Bytes(), .communicator_count = 0};
  }
  absl::Status ResetMemoryPeak() override { return absl::OkStatus(); }

 private:
  const std::unique_ptr<DeviceMemory> memory_ = MakeHostMemory();
};

// Returns what follows the colon in the first line of `path` that begins with `key`.
std::string LineOf(const char* path, absl::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, key)) continue;
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    return std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return "";
}

class CpuBackend : public DeviceBackend {
 public:
  CpuBackend() {
    cpu_set_t cores;
    if (::sched_getaffinity(0, sizeof(cores), &cores) == 0) device_count_ = CPU_COUNT(&cores);
    const std::string model = LineOf("/proc/cpuinfo", "model name");
    description_.kind = absl::StrCat("CPU ", model.empty() ? "unknown" : model);
    description_.memory = Bytes::Of(MachineMemory().count() / UsableProcessorCount());
    description_.libraries = CpuKernelLibraries();
  }

  const std::string& name() const override { return name_; }
  int device_count() const override { return device_count_; }
  absl::StatusOr<DeviceFacts> Describe(int) const override { return description_; }
  absl::StatusOr<std::unique_ptr<Device>> Open(int device) override {
    if (device < 0 || device >= device_count_) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", device, ": the cpu back end has ", device_count_, " devices"));
    }
    return std::make_unique<CpuDevice>();
  }

 private:
  const std::string name_ = "cpu";
  int device_count_ = 1;
  DeviceFacts description_;
};

}  // namespace

std::unique_ptr<Stopwatch> MakeCpuStopwatch() { return std::make_unique<CpuStopwatch>(); }

std::unique_ptr<DeviceBackend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace parplan
