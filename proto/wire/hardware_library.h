// The library of known devices and fabrics, by name. Its files are deploy/hardware/*.json;
// docs/hardware.md explains how to add to them. `KnownHardware`, `planctl hardware` and the readers
// of published runs look things up in it.

#ifndef PARPLAN_PROTO_WIRE_HARDWARE_LIBRARY_H_
#define PARPLAN_PROTO_WIRE_HARDWARE_LIBRARY_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/hardware.pb.h"
#include "planner/model/hardware.h"

namespace parplan {

// An immutable library, safe to use from any thread. Lookups return null for an unknown name and
// take O(log size); their pointers are valid as long as the library.
class HardwareLibrary {
 public:
  // Returns the library inside the program, made from deploy/hardware/*.json when it was built.
  // Reads no file. Lives until the process ends.
  static const HardwareLibrary& BuiltIn();

  // Makes a library. INVALID_ARGUMENT (SPEC_INVALID) naming the field, for example
  // `devices[3].sources`, if a rule of hardware.proto is broken, two entries have one name
  // (ignoring case, but not for links), a fabric does not consist of two links of the library, or a
  // usual fabric is unknown. The first fault alone is named: devices are checked first, then links,
  // fabrics and usual fabrics.
  static absl::StatusOr<HardwareLibrary> Create(v1::HardwareLibrary message);

  // Finds a device by `device_id` or alias, ignoring case, white space around the name, and a
  // leading `NVIDIA `.
  const DeviceDescription* FindDevice(absl::string_view name) const;

  // Finds a fabric by `fabric_id` or alias, ignoring what `FindDevice` ignores. Any link inside a
  // node, `+` and any link between nodes is a `fabric_id` too: `nvlink-4+ethernet-1x25` is found
  // although no system has that name.
  const FabricDescription* FindFabric(absl::string_view name) const;

  // Returns the fabric to assume for a cluster without a named one: the first of the device's usual
  // ones that fits. `device_id` as in `FindDevice`; `device_count` counts the whole cluster, 0 if
  // unknown, for which only fabrics of any number of devices fit. Null also if the device has none
  // for such nodes.
  const FabricDescription* DefaultFabricFor(absl::string_view device_id, int devices_per_node,
                                            int device_count = 0) const;

  // Message that the library was made from.
  const v1::HardwareLibrary& message() const { return message_; }
  // Finds the entry of a device, with aliases and sources.
  const v1::DeviceDescription* FindDeviceEntry(absl::string_view name) const;
  // Finds the entry of a named system; null also for combinations of links without a name.
  const v1::FabricDescription* FindFabricEntry(absl::string_view name) const;

 private:
  // Names as they are looked up, and indices of the entries.
  using Index = std::map<std::string, int>;

  HardwareLibrary() = default;
  absl::Status AddDevices();
  absl::Status AddLinks();
  absl::Status AddFabrics();
  absl::Status CheckUsualFabrics() const;

  v1::HardwareLibrary message_;
  std::vector<DeviceDescription> devices_;
  Index device_index_;
  std::vector<LinkDescription> intra_node_links_;
  std::vector<LinkDescription> inter_node_links_;
  // Every combination of links.
  std::vector<FabricDescription> fabrics_;
  Index fabric_index_;
  // Indices of `message_.fabrics()`.
  Index fabric_entry_index_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_HARDWARE_LIBRARY_H_
