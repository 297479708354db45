// `DeviceDescription`, `LinkDescription` and `FabricDescription` of the contract
// and the planner's values.

#ifndef PARPLAN_PROTO_WIRE_HARDWARE_WIRE_H_
#define PARPLAN_PROTO_WIRE_HARDWARE_WIRE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/hardware.pb.h"
#include "planner/model/hardware.h"

namespace parplan {

// INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below `field` when
// a rule of hardware.proto is broken. Aliases, usual fabrics and sources are not
// part of the planner's value and are not read.
absl::StatusOr<DeviceDescription> DeviceFromProto(const v1::DeviceDescription& message,
                                                  absl::string_view field = "device");
absl::StatusOr<LinkDescription> LinkFromProto(const v1::LinkDescription& message,
                                              absl::string_view field = "link");
absl::StatusOr<FabricDescription> FabricFromProto(const v1::FabricDescription& message,
                                                  absl::string_view field = "fabric");

// Total. What was read from a message comes back as it was, without aliases,
// usual fabrics and sources. Rates are rounded to whole bytes per second, latencies
// to nanoseconds.
v1::DeviceDescription DeviceToProto(const DeviceDescription& device);
v1::LinkDescription LinkToProto(const LinkDescription& link);
v1::FabricDescription FabricToProto(const FabricDescription& fabric);

// SHA-256 over the canonical text (digest.h) of every field; part of the plan
// key. `HardwareText` is that text.
std::string HardwareDigest(const Hardware& hardware);
std::string HardwareText(const Hardware& hardware);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_HARDWARE_WIRE_H_
