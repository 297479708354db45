// Shows the library of devices and fabrics. `planctl hardware` shows it.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_HARDWARE_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_HARDWARE_VIEW_H_

#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/wire/hardware_library.h"

namespace parplan::planctl {

// Returns tables of devices, named systems and links, in the order of the library, as text or as
// one JSON object (docs/planctl.md).
std::string HardwareListText(const HardwareLibrary& library);
nlohmann::ordered_json HardwareListJson(const HardwareLibrary& library);

// Returns every value of a device or fabric and its sources. If a device and a fabric share the
// name, the device is meant. NOT_FOUND (RESOURCE_NOT_FOUND) if the library does not know it.
absl::StatusOr<std::string> HardwareEntryText(const HardwareLibrary& library,
                                              absl::string_view name);
absl::StatusOr<nlohmann::ordered_json> HardwareEntryJson(const HardwareLibrary& library,
                                                         absl::string_view name);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_HARDWARE_VIEW_H_
