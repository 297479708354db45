#include "proto/wire/published_calibration.h"

#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "parplan/v1/calibration.pb.h"
#include "proto/wire/calibration_wire.h"
#include "proto/wire/embedded_files.h"
#include "proto/wire/json_file.h"

namespace parplan {

const std::shared_ptr<const Calibration>& PublishedCalibration() {
  static const auto& published = *new std::shared_ptr<const Calibration>([] {
    const EmbeddedFile& file = PublishedCalibrationFiles().front();
    v1::Calibration message;
    PARPLAN_CHECK(ParseJson(file.text, file.name, &message).ok());
    absl::StatusOr<Calibration> calibration = CalibrationFromProto(message);
    PARPLAN_CHECK(calibration.ok());
    return std::make_shared<const Calibration>(*std::move(calibration));
  }());
  return published;
}

}  // namespace parplan
