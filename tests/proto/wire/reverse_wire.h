// The planner's values as messages, where the product only reads them: tests convert there and
// back.

#ifndef PARPLAN_TESTS_PROTO_WIRE_REVERSE_WIRE_H_
#define PARPLAN_TESTS_PROTO_WIRE_REVERSE_WIRE_H_

#include "absl/status/statusor.h"
#include "parplan/v1/hardware.pb.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/hardware.h"
#include "proto/wire/rules_wire.h"

namespace parplan {

// Writes the defaults out: `OptionsFromProto` returns the same value.
v1::PlanningOptions OptionsToProto(const PlanningOptions& options);

// Rates are rounded to whole bytes per second, latencies to nanoseconds. Aliases, usual fabrics and
// sources are no part of the value.
v1::DeviceDescription DeviceToProto(const DeviceDescription& device);
v1::LinkDescription LinkToProto(const LinkDescription& link);
v1::FabricDescription FabricToProto(const FabricDescription& fabric);

// Reads both links of a fabric; its own name is not checked.
absl::StatusOr<FabricDescription> FabricFromProto(const v1::FabricDescription& message);

}  // namespace parplan

#endif  // PARPLAN_TESTS_PROTO_WIRE_REVERSE_WIRE_H_
