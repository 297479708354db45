#include "proto/wire/known_hardware.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "proto/wire/field_path.h"

namespace parplan {

absl::StatusOr<std::shared_ptr<const Hardware>> KnownHardware(const Topology& topology,
                                                              absl::string_view field,
                                                              const HardwareLibrary& library) {
  PARPLAN_CHECK(topology.node_groups().size() == 1);
  const NodeGroup& group = topology.node_groups().front();
  const DeviceDescription* const device = library.FindDevice(group.device_kind);
  const FabricDescription* fabric = nullptr;
  if (!topology.fabric_id().empty()) {
    fabric = library.FindFabric(topology.fabric_id());
    if (fabric == nullptr) {
      return FieldError(
          Reason::kSpecInvalid, JoinPath(field, "fabric_id"),
          absl::StrCat("`", topology.fabric_id(),
                       "` is not in the library of fabrics; docs/hardware.md lists those there "
                       "are, empty stands for the usual one of the device"));
    }
  } else if (device != nullptr) {
    fabric = library.DefaultFabricFor(device->device_id, group.devices_per_node,
                                      topology.device_count());
  }
  if (device == nullptr || fabric == nullptr) return std::shared_ptr<const Hardware>();
  return std::make_shared<const Hardware>(Hardware{.device = *device, .fabric = *fabric});
}

}  // namespace parplan
