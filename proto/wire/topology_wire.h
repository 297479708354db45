// Conversion between `ClusterTopology` of the contract and `Topology` of the planner. Everything
// that reads or writes a cluster as a message does it here.

#ifndef PARPLAN_PROTO_WIRE_TOPOLOGY_WIRE_H_
#define PARPLAN_PROTO_WIRE_TOPOLOGY_WIRE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/topology.pb.h"
#include "planner/model/topology.h"

namespace parplan {

// Returns the value of a message. INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below
// `field` if a rule of topology.proto is broken or there are more than kMaxDeviceCount devices.
// Device kinds and fabric are not looked up: unknown ones pass (`KnownHardware`).
absl::StatusOr<Topology> TopologyFromProto(const v1::ClusterTopology& message,
                                           absl::string_view field = "topology");

// Returns the message of any value. `TopologyFromProto` returns the same value, if that has at most
// kMaxDeviceCount devices.
v1::ClusterTopology TopologyToProto(const Topology& topology);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_TOPOLOGY_WIRE_H_
