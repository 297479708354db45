// Back ends by name.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_LOAD_BACKEND_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_LOAD_BACKEND_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/device/backend/device_backend.h"

namespace parplan {

// How ranks on GPUs exchange data.
enum class GroupWay : int32_t {
  // By NCCL; through the processor where two ranks of the group are on one GPU, which NCCL
  // refuses.
  kAutomatic,
  // Always by the library of the device.
  kNative,
  // Always through the processor: slow, for tests.
  kStaged,
};

struct BackendOptions {
  // The plugin's file; empty: what PARPLAN_CUDA_PLUGIN names, else libparplan_cuda.so beside
  // the program or in ../lib from there.
  std::string plugin;
  GroupWay groups = GroupWay::kAutomatic;
};

// Why there is no back end.
enum class BackendFault {
  kUnknownName,
  // No file of that name: parplan was built without it.
  kNotBuilt,
  // The file is there and cannot be loaded, for want of a library as a rule.
  kNotLoadable,
  // Of another release, or no plugin at all.
  kOtherRelease,
  kNoDriver,
  kDriverTooOld,
  kNoDevice,
  kFailed,
};

// `name`: `cpu` or `cuda`. The error says in one line what is missing and what to do:
// INVALID_ARGUMENT for another name, UNAVAILABLE for whatever the machine lacks. A plugin that
// was loaded once stays loaded.
absl::StatusOr<std::unique_ptr<DeviceBackend>> LoadBackend(absl::string_view name,
                                                           const BackendOptions& options = {});

// Of a status of `LoadBackend`; absent for any other.
std::optional<BackendFault> GetBackendFault(const absl::Status& status);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_LOAD_BACKEND_H_
