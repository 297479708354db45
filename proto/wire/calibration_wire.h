// `Calibration` of the contract and of the planner.

#ifndef PARPLAN_PROTO_WIRE_CALIBRATION_WIRE_H_
#define PARPLAN_PROTO_WIRE_CALIBRATION_WIRE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/calibration.pb.h"
#include "planner/model/calibration.h"

namespace parplan {

// The value, its digest set. Fields marked "Output only" are not looked at.
// INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below `field` when a
// rule of calibration.proto is broken.
absl::StatusOr<Calibration> CalibrationFromProto(const v1::Calibration& message,
                                                 absl::string_view field = "calibration");

// Without `name` and `create_time`; with the digest. `CalibrationFromProto` gives
// an equal value back.
v1::Calibration CalibrationToProto(const Calibration& calibration);

// SHA-256 in the manner of digest.h over provenance, values and classes. The order
// of values and of classes does not matter; the members `digest`, `name` and
// `create_time` are not read.
std::string CalibrationDigest(const Calibration::Content& content);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_CALIBRATION_WIRE_H_
