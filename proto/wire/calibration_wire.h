// Conversion between `Calibration` of the contract and of the planner. The server, `planctl`, the
// study of accuracy and `PublishedCalibration` convert by it.

#ifndef PARPLAN_PROTO_WIRE_CALIBRATION_WIRE_H_
#define PARPLAN_PROTO_WIRE_CALIBRATION_WIRE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/calibration.pb.h"
#include "planner/model/calibration.h"

namespace parplan {

// Returns the value of a message, with its digest. Ignores fields marked "Output only".
// INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below `field` if a rule of
// calibration.proto is broken.
absl::StatusOr<Calibration> CalibrationFromProto(const v1::Calibration& message,
                                                 absl::string_view field = "calibration");

// Returns the message of a value, with its `CalibrationDigest` but without `name` and
// `create_time`. `CalibrationFromProto` returns an equal value of it, if that function made the
// value; a `fit_time` that is no time is left out.
v1::Calibration CalibrationToProto(const Calibration& calibration);

// Returns the SHA-256 of the canonical text (digest.h) of provenance, values and classes, 64
// digits. The order of values and of classes does not matter, that of sources and notes does;
// `digest`, `name` and `create_time` are ignored.
std::string CalibrationDigest(const Calibration::Content& content);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_CALIBRATION_WIRE_H_
