// The library of devices and fabrics as planctl shows it.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_HARDWARE_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_HARDWARE_VIEW_H_

#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/wire/hardware_library.h"

namespace parplan::planctl {

// Tables of devices, named systems and links, in the order of the library, and
// the same as one object (docs/planctl.md).
std::string HardwareListText(const HardwareLibrary& library);
nlohmann::ordered_json HardwareListJson(const HardwareLibrary& library);

// Every value of a device or fabric and its sources. `name` is taken for a device
// first. NOT_FOUND (RESOURCE_NOT_FOUND) for a name that the library does not know.
absl::StatusOr<std::string> HardwareEntryText(const HardwareLibrary& library,
                                              absl::string_view name);
absl::StatusOr<nlohmann::ordered_json> HardwareEntryJson(const HardwareLibrary& library,
                                                         absl::string_view name);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_HARDWARE_VIEW_H_
