#include "executor/device/backend/load_backend.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "executor/device/backend/plugin.h"

#ifndef PARPLAN_RELEASE
#error "the build says of which release this is"
#endif

namespace parplan {
namespace {

constexpr char kFaultUrl[] = "parplan/backend-fault";
constexpr char kFileName[] = "libparplan_cuda.so";

absl::Status Fault(BackendFault fault, absl::string_view text) {
  const bool is_call = fault == BackendFault::kUnknownName;
  absl::Status status(is_call ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnavailable,
                      text);
  status.SetPayload(kFaultUrl, absl::Cord(absl::StrCat(static_cast<int>(fault))));
  return status;
}

absl::Status CudaFault(BackendFault fault, absl::string_view text) {
  return Fault(fault, absl::StrCat("no cuda back end: ", text));
}

// Lists the paths at which the plugin may be, in the order in which they are tried.
std::vector<std::string> Places(const BackendOptions& options) {
  if (!options.plugin.empty()) return {options.plugin};
  const char* const named = std::getenv("PARPLAN_CUDA_PLUGIN");
  if (named != nullptr && *named != '\0') return {named};
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path folder = program.parent_path();
  return {(folder / kFileName).string(), (folder.parent_path() / "lib" / kFileName).string()};
}

absl::StatusOr<std::string> FindPlugin(const BackendOptions& options) {
  const std::vector<std::string> places = Places(options);
  std::error_code ignored;
  for (const std::string& place : places) {
    if (std::filesystem::exists(place, ignored)) return place;
  }
  return CudaFault(BackendFault::kNotBuilt,
                   absl::StrCat("not built: there is no ", absl::StrJoin(places, ", nor "),
                                "; build it with `cmake --preset cuda`, or name its file in "
                                "PARPLAN_CUDA_PLUGIN"));
}

std::string VersionText(int32_t version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

absl::Status FaultOf(const PluginFindings& findings) {
  const std::string text = findings.text;
  switch (findings.state) {
    case PluginState::kReady:
      return absl::OkStatus();
    case PluginState::kNoDriver:
      return CudaFault(BackendFault::kNoDriver,
                       "no driver: install NVIDIA's driver, or run where there is a GPU");
    case PluginState::kDriverTooOld:
      return CudaFault(BackendFault::kDriverTooOld,
                       absl::StrCat("the driver is too old: it serves CUDA ",
                                    VersionText(findings.driver_version), ", the plugin needs ",
                                    VersionText(findings.runtime_version), "; update the driver"));
    case PluginState::kNoDevice:
      return CudaFault(BackendFault::kNoDevice,
                       absl::StrCat("no device: driver ", VersionText(findings.driver_version),
                                    " finds no GPU; look at CUDA_VISIBLE_DEVICES"));
    case PluginState::kFailed:
      break;
  }
  return CudaFault(BackendFault::kFailed, text.empty() ? "it does not say why" : text);
}

absl::StatusOr<const DevicePlugin*> LoadPlugin(const std::string& path) {
  // The plugin stays loaded: libraries of CUDA cannot be unloaded safely.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return CudaFault(BackendFault::kNotLoadable, absl::StrCat("the plugin cannot be loaded: ",
                                                              why == nullptr ? "unknown" : why));
  }
  const auto function = reinterpret_cast<PluginFunction>(::dlsym(library, kPluginFunction));
  const DevicePlugin* const plugin = function == nullptr ? nullptr : function();
  if (plugin == nullptr) {
    return CudaFault(BackendFault::kOtherRelease,
                     absl::StrCat(path,
                                  " is no plugin of parplan; install the one that was built "
                                  "with this program"));
  }
  if (plugin->abi != kPluginAbi || absl::string_view(plugin->release) != PluginRelease()) {
    return CudaFault(BackendFault::kOtherRelease,
                     absl::StrCat(path, " is of another build (", plugin->release, ", interface ",
                                  plugin->abi, ") than this program (", PluginRelease(),
                                  ", interface ", kPluginAbi, "); install both together"));
  }
  return plugin;
}

absl::StatusOr<std::unique_ptr<DeviceBackend>> LoadCuda(const BackendOptions& options) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string path, FindPlugin(options));
  PARPLAN_ASSIGN_OR_RETURN(const DevicePlugin* const plugin, LoadPlugin(path));
  PARPLAN_RETURN_IF_ERROR(FaultOf(plugin->look()));
  PluginFindings findings;
  std::unique_ptr<DeviceBackend> backend(plugin->open(options, findings));
  if (backend == nullptr) {
    if (findings.state == PluginState::kReady) findings.state = PluginState::kFailed;
    return FaultOf(findings);
  }
  return backend;
}

}  // namespace

const char* PluginRelease() { return PARPLAN_RELEASE " " __VERSION__; }

absl::StatusOr<std::unique_ptr<DeviceBackend>> LoadBackend(absl::string_view name,
                                                           const BackendOptions& options) {
  if (name == "cpu") return MakeCpuBackend();
  if (name == "cuda") return LoadCuda(options);
  return Fault(BackendFault::kUnknownName,
               absl::StrCat("backend: there is no '", name, "'; use cpu or cuda"));
}

std::optional<BackendFault> GetBackendFault(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kFaultUrl);
  int fault = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &fault)) return std::nullopt;
  return static_cast<BackendFault>(fault);
}

}  // namespace parplan
