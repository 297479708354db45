// Devices of a machine, by back end: `cpu`, whose devices are cores, and `cuda`, whose devices
// are GPUs and which is a plugin (load_backend.h). Executor, agent and tests see no more of a
// device than this.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_DEVICE_BACKEND_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_DEVICE_BACKEND_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "executor/device/backend/stopwatch.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/rank_context.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan {

// A device as one rank uses it. Its work is done in the order in which it is given, by kernels,
// copies and communicators alike. To be used by the thread that opened it; outlives what it made.
class Device {
 public:
  virtual ~Device() = default;

  // UNIMPLEMENTED for a type the device has no kernels for.
  virtual absl::StatusOr<std::unique_ptr<LayerKernels>> MakeKernels(ElementType type) = 0;
  // Where arrays of the device come from.
  virtual DeviceMemory& memory() = 0;
  virtual std::unique_ptr<Stopwatch> MakeStopwatch() = 0;
  // The communicator of `ranks` of the job, in that order, between buffers of their devices; all
  // of them ask for it. On a GPU an operation is ordered among the device's work: `Wait` makes
  // what is called afterwards wait for it, and errors may come in `Synchronize` only.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(
      RankContext& job, const std::string& name, const std::vector<int>& ranks) = 0;

  // Between memory of the process and of the device; both have ended on return.
  virtual absl::Status CopyFromHost(const void* host, void* device, Bytes size) = 0;
  virtual absl::Status CopyToHost(const void* device, void* host, Bytes size) = 0;
  // Waits for everything the device was given, and tells how it went.
  virtual absl::Status Synchronize() = 0;
};

struct DeviceFacts {
  // As topologies name it, for example `NVIDIA H200` or `CPU Intel(R) Xeon(R) ...`.
  std::string kind;
  Bytes memory;
  // Names in lower case and releases of the libraries that its kernels and collectives run in,
  // for example `nccl` and `2.27.5`.
  std::vector<std::pair<std::string, std::string>> libraries;
};

// Safe to use from any thread.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  // As `LoadBackend` knows it.
  virtual const std::string& name() const = 0;
  // At least 1.
  virtual int device_count() const = 0;
  // REQUIRES: 0 <= device < device_count().
  virtual absl::StatusOr<DeviceFacts> Describe(int device) const = 0;
  // For the calling thread. Pins nothing: whoever starts ranks does.
  virtual absl::StatusOr<std::unique_ptr<Device>> Open(int device) = 0;
};

// Cores this process may run on; a device's memory is the machine's, divided by the processors
// it may be bound to (machine.h).
std::unique_ptr<DeviceBackend> MakeCpuBackend();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_DEVICE_BACKEND_H_
