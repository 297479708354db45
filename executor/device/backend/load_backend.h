// Back ends by name. `parplan-exec` and `parplan-agent-probe` load their devices by it.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_LOAD_BACKEND_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_LOAD_BACKEND_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/device/backend/device_backend.h"

namespace parplan {

// How ranks on GPUs exchange data.
enum class GroupTransport : int32_t {
  // NCCL, but host memory if two ranks of the group are on one GPU, which NCCL refuses.
  kAutomatic,
  // Always the library of the device.
  kNative,
  // Always host memory: slow, for tests.
  kStaged,
};

// The library that computes attention of bf16 on GPUs. For other types, and for shapes that cuDNN
// refuses, it is always our own kernels.
enum class AttentionChoice : int32_t {
  // The choice of the variable PARPLAN_ATTENTION (`own`, `cudnn` or `cudnn-fast`); kCudnn if it is
  // not set or has any other value.
  kAutomatic,
  kOwn,
  // cuDNN where it can be loaded, with gradients that are the same every time if it can.
  kCudnn,
  // cuDNN with gradients in any order, as frameworks use it by default.
  kCudnnFastest,
};

// Options of the back end `cuda`; `cpu` ignores them.
struct BackendOptions {
  // Path of the plugin. Empty: that in PARPLAN_CUDA_PLUGIN, else libparplan_cuda.so beside the
  // program or in ../lib from there.
  std::string plugin;
  GroupTransport groups = GroupTransport::kAutomatic;
  AttentionChoice attention = AttentionChoice::kAutomatic;
};

// Reason for which a back end cannot be loaded.
enum class BackendFault {
  kUnknownName,
  // There is no plugin file: parplan was built without it, or a wrong path was named.
  kNotBuilt,
  // The file cannot be loaded, usually because a library it needs is missing.
  kNotLoadable,
  // The file is of another release, or not a plugin.
  kOtherRelease,
  kNoDriver,
  kDriverTooOld,
  kNoDevice,
  // Anything else; the message says what.
  kFailed,
};

// Loads the back end `name`, `cpu` or `cuda`. The error says in one line what is missing and what
// to do: INVALID_ARGUMENT for another name, UNAVAILABLE for the other faults, both without a
// reason. A plugin stays loaded until the process ends. It sets CUDA_DEVICE_MAX_CONNECTIONS and
// NCCL_RUNTIME_CONNECT in the process's environment unless they are set; no other thread may read
// the environment meanwhile.
absl::StatusOr<std::unique_ptr<DeviceBackend>> LoadBackend(absl::string_view name,
                                                           const BackendOptions& options = {});

// Returns the fault in an error of `LoadBackend`; absent for any other status.
std::optional<BackendFault> GetBackendFault(const absl::Status& status);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_LOAD_BACKEND_H_
