// Conversion of `DeviceDescription` and `LinkDescription` of the contract to the planner's values,
// and the digest of hardware. `HardwareLibrary` converts by it; the plan key has the digest.

#ifndef PARPLAN_PROTO_WIRE_HARDWARE_WIRE_H_
#define PARPLAN_PROTO_WIRE_HARDWARE_WIRE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/hardware.pb.h"
#include "planner/model/hardware.h"

namespace parplan {

// Returns the value of a message. INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below
// `field` if a rule of hardware.proto is broken. Aliases, usual fabrics and sources are not part of
// the planner's value and are not read.
absl::StatusOr<DeviceDescription> DeviceFromProto(const v1::DeviceDescription& message,
                                                  absl::string_view field = "device");
absl::StatusOr<LinkDescription> LinkFromProto(const v1::LinkDescription& message,
                                              absl::string_view field = "link");

// Returns the SHA-256 of `HardwareText`, the canonical text (digest.h) of every field. Part of the
// plan key.
std::string HardwareDigest(const Hardware& hardware);
std::string HardwareText(const Hardware& hardware);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_HARDWARE_WIRE_H_
