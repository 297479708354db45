// Devices of a machine by back end: `cpu`, whose devices are cores, and `cuda`, whose devices are
// GPUs and which is a plugin (load_backend.h). Executor, agent and tests use devices through this
// interface only.

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

// The memory of a device that is held for this process.
struct DeviceMemoryUse {
  // The memory held in addition to arrays: the driver's context, libraries and communicators. On a
  // GPU that other processes use too, theirs are counted with it.
  Bytes context;
  // The largest amount held for arrays, with the gaps between them; 0 where the device has no
  // allocator of its own, so that a pool's figures (ArrayPool) are all there is.
  Bytes arrays_peak;
  // Number of communicators of the device's own library that were made so far, also those that have
  // ended; 0 where groups go through the host's memory.
  int communicator_count = 0;
};

// A device as one rank uses it. It executes kernels, copies and collectives in the order in which
// they are called. Used by the thread that opened it; outlives everything it made.
class Device {
 public:
  virtual ~Device() = default;

  // Makes the kernels for elements of `type`: `cpu` has them for fp32 and fp64, `cuda` for fp32 and
  // bf16. UNIMPLEMENTED for any other type.
  virtual absl::StatusOr<std::unique_ptr<LayerKernels>> MakeKernels(ElementType type) = 0;
  // Returns the allocator of the device's memory, valid as long as the device.
  virtual DeviceMemory& memory() = 0;
  // Makes a stopwatch for work of this device; never null.
  virtual std::unique_ptr<Stopwatch> MakeStopwatch() = 0;
  // Makes the communicator of `ranks` of the job, in that order, for buffers of their devices.
  // Collective: exactly these ranks call it. On a GPU `Wait` blocks at most until the operation has
  // started: later work of the device waits for its end, and its error may only be returned by
  // `Synchronize`. Operations of groups of one `name` run there in the order in which they are
  // called, so messages of opposite directions need groups of different names. INVALID_ARGUMENT if
  // this rank is not among `ranks`, FAILED_PRECONDITION where a group of several GPUs finds no
  // NCCL; else the errors of RankContext and NCCL.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(
      RankContext& job, const std::string& name, const std::vector<int>& ranks) = 0;

  // Copy between host memory and the device, after all earlier work; the copy has ended on return.
  // Return the first error of that work or the copy; never one on the processor.
  virtual absl::Status CopyFromHost(const void* host, void* device, Bytes size) = 0;
  virtual absl::Status CopyToHost(const void* device, void* host, Bytes size) = 0;
  // Waits for all work of the device and returns its first error.
  virtual absl::Status Synchronize() = 0;

  // Returns the memory that the device holds for this process, by its driver's figures. Errors are
  // those of `Synchronize`.
  virtual absl::StatusOr<DeviceMemoryUse> MemoryUse() = 0;
  // Says in a line each what a reader of measurements should know of this device's kernels: which
  // library computes attention, and which shapes it refused. Empty on the processor.
  virtual std::vector<std::string> Notes() const { return {}; }
  // Gives memory that no array uses back to the driver, and forgets earlier peaks of it.
  virtual absl::Status ResetMemoryPeak() = 0;
};

// The facts that topologies and profiles state about a device.
struct DeviceFacts {
  // Name as topologies have it, for example `NVIDIA H200` or `CPU Intel(R) Xeon(R) ...`.
  std::string kind;
  // Memory of the device; on the processor see MakeCpuBackend.
  Bytes memory;
  // Lower-case names and releases of the libraries of its kernels and collectives, for example
  // `nccl` and `2.27.5`.
  std::vector<std::pair<std::string, std::string>> libraries;
};

// A kind of device of this machine. All methods may be called from any thread.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  // Name as given to `LoadBackend`.
  virtual const std::string& name() const = 0;
  // Number of devices, at least 1.
  virtual int device_count() const = 0;
  // Returns the facts of a device; those of all cores are the same. The first call of `cuda` loads
  // cuDNN if there is one, and sets variables of the environment for it (CudnnVersion,
  // cudnn_attention.h), which no other thread may read meanwhile. INTERNAL if CUDA does not report
  // them. REQUIRES, unchecked by `cpu`: 0 <= device < device_count().
  virtual absl::StatusOr<DeviceFacts> Describe(int device) const = 0;
  // Opens a device for the calling thread. `cpu` does not bind the thread to a core, which is the
  // task of the launcher of ranks; `cuda` binds it to the processors near the GPU (near_cores.h).
  // INVALID_ARGUMENT for an index out of range, FAILED_PRECONDITION if the plugin has no code for
  // the GPU, RESOURCE_EXHAUSTED or INTERNAL if the GPU cannot be used.
  virtual absl::StatusOr<std::unique_ptr<Device>> Open(int device) = 0;
};

// Makes the back end whose devices are the processors that the calling thread may run on now: one
// for a rank that is bound to one. The memory of a device is the machine's, divided by the number
// of processors the process may be bound to (machine.h).
std::unique_ptr<DeviceBackend> MakeCpuBackend();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_DEVICE_BACKEND_H_
