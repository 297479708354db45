// What a back end that is a plugin exports: one C function. Program and plugin exchange C++
// objects, so both must be of one build; until that is sure only plain data is looked at.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_PLUGIN_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_PLUGIN_H_

#include <cstdint>

#include "executor/device/backend/device_backend.h"

namespace parplan {

// Grows with every change to a class that crosses: Device, DeviceBackend, RankContext,
// Communicator, LayerKernels and what they use.
inline constexpr int32_t kPluginAbi = 2;

// Of the build: the release and the compiler.
const char* PluginRelease();

struct BackendOptions;

// What a back end finds on the machine.
enum class PluginState : int32_t {
  kReady = 0,
  kNoDriver = 1,
  kDriverTooOld = 2,
  kNoDevice = 3,
  // Anything else; `text` says what.
  kFailed = 4,
};

struct PluginFindings {
  PluginState state = PluginState::kFailed;
  // As CUDA counts versions: 13000 is 13.0; 0 where there is none.
  int32_t driver_version = 0;
  int32_t runtime_version = 0;
  // Ends with a zero.
  char text[256] = {};
};

// The first two members stay where they are in all releases.
struct DevicePlugin {
  int32_t abi;
  const char* release;
  // Looks for driver and devices; quick.
  PluginFindings (*look)();
  // Null when it fails; `findings` says why. The caller deletes it. Only after kReady.
  DeviceBackend* (*open)(const BackendOptions& options, PluginFindings& findings);
};

inline constexpr char kPluginFunction[] = "parplan_device_plugin";
using PluginFunction = const DevicePlugin* (*)();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_PLUGIN_H_
