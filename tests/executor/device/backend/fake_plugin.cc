// A plugin with one fault; built once for each. FAKE_STATE is what it finds on the machine.

#include <cstdio>

#include "executor/device/backend/load_backend.h"
#include "executor/device/backend/plugin.h"

#ifndef FAKE_ABI
#define FAKE_ABI ::parplan::kPluginAbi
#endif
#ifndef FAKE_RELEASE
#define FAKE_RELEASE ::parplan::PluginRelease()
#endif
#ifndef FAKE_STATE
#define FAKE_STATE kReady
#endif
#ifndef FAKE_FUNCTION
#define FAKE_FUNCTION parplan_device_plugin
#endif

namespace {

parplan::PluginFindings Look() {
  parplan::PluginFindings findings{
      .state = parplan::PluginState::FAKE_STATE, .driver_version = 12040, .runtime_version = 13000};
  std::snprintf(findings.text, sizeof(findings.text), "the fake fails");
  return findings;
}

parplan::DeviceBackend* Open(const parplan::BackendOptions& options,
                             parplan::PluginFindings& findings) {
  if (options.groups == parplan::GroupTransport::kNative) {
    std::snprintf(findings.text, sizeof(findings.text), "the fake does not open");
    return nullptr;
  }
  return parplan::MakeCpuBackend().release();
}

}  // namespace

#ifdef FAKE_USES_ANOTHER_LIBRARY
extern "C" int fake_library_function();
#endif

extern "C" const parplan::DevicePlugin* FAKE_FUNCTION() {
#ifdef FAKE_USES_ANOTHER_LIBRARY
  if (fake_library_function() == 0) return nullptr;
#endif
  static const parplan::DevicePlugin plugin = {FAKE_ABI, FAKE_RELEASE, Look, Open};
  return &plugin;
}
