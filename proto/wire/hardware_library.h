// The devices and fabrics we know, by name. The files are deploy/hardware/*.json;
// docs/hardware.md says how to add to them.

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

// Immutable. Pointers it gives live as long as it does and are null for an
// unknown name. Lookups take O(log size).
class HardwareLibrary {
 public:
  // The library inside the program, made from deploy/hardware/*.json when it was
  // built. Needs no file; lives forever.
  static const HardwareLibrary& BuiltIn();

  // INVALID_ARGUMENT (SPEC_INVALID) naming the field, `devices[3].sources` for
  // example: a rule of hardware.proto is broken, a name is taken twice (whatever
  // its case), a fabric is not made of two links of the library, or a usual
  // fabric is unknown.
  static absl::StatusOr<HardwareLibrary> Create(v1::HardwareLibrary message);

  // By `device_id` or alias; neither case nor a leading `NVIDIA ` matter.
  const DeviceDescription* FindDevice(absl::string_view name) const;

  // By `fabric_id` or alias, whatever the case. Every link inside a node joined
  // with `+` to any link between nodes is a `fabric_id`: `nvlink-4+ethernet-1x25`
  // is found although no system of that kind is named.
  const FabricDescription* FindFabric(absl::string_view name) const;

  // What to assume of a cluster whose fabric nobody described. `device_id` as in
  // `FindDevice`; `device_count` of the whole cluster, 0 when unknown.
  const FabricDescription* DefaultFabricFor(absl::string_view device_id, int devices_per_node,
                                            int device_count = 0) const;

  // What the library was made from, in its order.
  const v1::HardwareLibrary& message() const { return message_; }
  // The entry that `FindDevice` answers from, with aliases and sources.
  const v1::DeviceDescription* FindDeviceEntry(absl::string_view name) const;
  // The named system that `FindFabric` answers from; null also for combinations
  // without a name.
  const v1::FabricDescription* FindFabricEntry(absl::string_view name) const;

 private:
  // Names as they are looked up, and where the entries stand.
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
  // Into `message_.fabrics()`.
  Index fabric_entry_index_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_HARDWARE_LIBRARY_H_
