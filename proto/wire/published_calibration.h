// The calibration inside the program. Server, planctl and studies take it if they are given no
// other.

#ifndef PARPLAN_PROTO_WIRE_PUBLISHED_CALIBRATION_H_
#define PARPLAN_PROTO_WIRE_PUBLISHED_CALIBRATION_H_

#include <memory>

#include "planner/model/calibration.h"

namespace parplan {

// Returns the calibration that was fitted to a declared part of published runs
// (deploy/calibrations/published.json, docs/calibration.md). Programs predict with it if no other
// calibration is given. It contains its digest and lives until the process ends. The first call
// reads it; any thread may call.
const std::shared_ptr<const Calibration>& PublishedCalibration();

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PUBLISHED_CALIBRATION_H_
