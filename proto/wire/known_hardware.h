// Lookup of the data sheets of a job's devices and links. The server, offline planning and the
// studies look it up before they make a problem.

#ifndef PARPLAN_PROTO_WIRE_KNOWN_HARDWARE_H_
#define PARPLAN_PROTO_WIRE_KNOWN_HARDWARE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/model/hardware.h"
#include "planner/model/topology.h"
#include "proto/wire/hardware_library.h"

namespace parplan {

// Returns the device by its `device_kind`, and the links by the topology's `fabric_id` or, without
// one, the usual links of the device. Returns null if the device is not in the library or has no
// usual links for nodes of this size and a cluster of this many devices. INVALID_ARGUMENT
// (SPEC_INVALID) naming `fabric_id` below `field` for a fabric that is not in the library, also if
// the device is not.
//
// REQUIRES: one node group; aborts otherwise.
absl::StatusOr<std::shared_ptr<const Hardware>> KnownHardware(
    const Topology& topology, absl::string_view field = "topology",
    const HardwareLibrary& library = HardwareLibrary::BuiltIn());

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_KNOWN_HARDWARE_H_
