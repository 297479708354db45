// The interface of a back end that is a plugin: one exported C function. Program and plugin
// exchange C++ objects, so both must be of one build; until that is checked only plain data is
// read. `LoadBackend` reads it, and executor/device/cuda/plugin.cc implements it.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_PLUGIN_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_PLUGIN_H_

#include <cstdint>

#include "executor/device/backend/device_backend.h"

namespace parplan {

// Grows with every change to a class that crosses: Device, DeviceBackend, RankContext,
// Communicator, LayerKernels, BackendOptions, the structs of this header, and what they use.
inline constexpr int32_t kPluginAbi = 5;

// Returns release and compiler of this build.
const char* PluginRelease();

struct BackendOptions;

// Result of a back end's look at the machine.
enum class PluginState : int32_t {
  kReady = 0,
  kNoDriver = 1,
  kDriverTooOld = 2,
  kNoDevice = 3,
  // Anything else; `text` says what.
  kFailed = 4,
};

// The result of the plugin's look at this machine.
struct PluginFindings {
  PluginState state = PluginState::kFailed;
  // Versions as CUDA counts them: 13000 is 13.0; 0 if there is none.
  int32_t driver_version = 0;
  int32_t runtime_version = 0;
  // Explanation, zero-terminated.
  char text[256] = {};
};

// The first two members keep their place in all releases, so that they can be read first.
struct DevicePlugin {
  int32_t abi;
  const char* release;
  // Looks for driver and devices; fast. This and `open` set variables of CUDA and NCCL in the
  // process's environment (LoadBackend).
  PluginFindings (*look)();
  // Opens the back end, which the caller deletes; null with the reason in `findings` if it fails.
  // Called only after `look` returned kReady.
  DeviceBackend* (*open)(const BackendOptions& options, PluginFindings& findings);
};

// Name of the exported function, which takes nothing and returns a `const DevicePlugin*` that lives
// as long as the plugin is loaded.
inline constexpr char kPluginFunction[] = "parplan_device_plugin";
using PluginFunction = const DevicePlugin* (*)();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_PLUGIN_H_
