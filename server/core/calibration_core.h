// Keeps calibrations, and says which of them the plans of a cluster rest on.

#ifndef PARPLAN_SERVER_CORE_CALIBRATION_CORE_H_
#define PARPLAN_SERVER_CORE_CALIBRATION_CORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/system/clock.h"
#include "parplan/v1/calibration.pb.h"
#include "parplan/v1/calibration_service.pb.h"
#include "planner/model/calibration.h"
#include "server/core/limits.h"
#include "server/core/lru_cache.h"
#include "server/core/observer.h"
#include "server/store/store.h"

namespace parplan {

// Errors are those listed in calibration_service.proto. Every method may wait for
// the store's disk. Safe to use from any thread.
class CalibrationCore {
 public:
  // All outlive the core.
  CalibrationCore(Store& store, const Clock& clock, Observer& observer, const Limits& limits);

  // Named by the digest of the content: `clusters/{cluster}/calibrations/` and the
  // first 32 digits. So a plan says by itself where its calibration is.
  absl::StatusOr<v1::Calibration> Upload(const v1::UploadCalibrationRequest& request);
  absl::StatusOr<v1::Calibration> Get(const v1::GetCalibrationRequest& request);
  absl::StatusOr<v1::ListCalibrationsResponse> List(const v1::ListCalibrationsRequest& request);
  absl::StatusOr<v1::ActiveCalibration> Activate(const v1::ActivateCalibrationRequest& request);
  absl::StatusOr<v1::ActiveCalibration> GetActive(const v1::GetActiveCalibrationRequest& request);

  // Name of the cluster's active calibration; empty for none. Cheap.
  absl::StatusOr<std::string> ActiveName(absl::string_view cluster);

  // What is stored under `name`; null for the empty name. Kept in memory, since it
  // never changes. DATA_LOSS (STORE_UNAVAILABLE) when this server does not
  // understand it: it is damaged, or a newer one stored it.
  absl::StatusOr<std::shared_ptr<const Calibration>> Find(const std::string& name);

 private:
  // What is active now, which is told.
  absl::StatusOr<ActiveCalibrationRecord> ReadActive(absl::string_view cluster);

  Store& store_;
  const Clock& clock_;
  Observer& observer_;
  const Limits& limits_;
  LruCache<std::shared_ptr<const Calibration>> calibrations_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_CALIBRATION_CORE_H_
