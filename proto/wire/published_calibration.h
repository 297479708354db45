// The calibration inside the program.

#ifndef PARPLAN_PROTO_WIRE_PUBLISHED_CALIBRATION_H_
#define PARPLAN_PROTO_WIRE_PUBLISHED_CALIBRATION_H_

#include <memory>

#include "planner/model/calibration.h"

namespace parplan {

// What a declared slice of published runs taught (deploy/calibrations/published.json,
// docs/calibration.md): what programs predict with where no other calibration is
// given. Has its digest. Lives forever.
const std::shared_ptr<const Calibration>& PublishedCalibration();

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PUBLISHED_CALIBRATION_H_
