// Stores calibrations and knows which one is active in each cluster.
// server/rpc/calibration_service.cc calls its methods, and `KnowledgeKeeper` asks it for the active
// one.

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

// The methods of CalibrationService. Errors are those listed in calibration_service.proto:
// INVALID_ARGUMENT (SPEC_INVALID) naming the field, or (REQUEST_ID_REUSED) for another calibration
// under a `request_id`; NOT_FOUND (RESOURCE_NOT_FOUND); RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE) for
// an upload above `Limits::max_request_bytes`; the store's UNAVAILABLE, DATA_LOSS and INTERNAL (all
// STORE_UNAVAILABLE). Every method may wait for the store's disk or network. Safe to use from any
// thread.
class CalibrationCore {
 public:
  // REQUIRES, unchecked: the arguments outlive the core.
  CalibrationCore(Store& store, const Clock& clock, Observer& observer, const Limits& limits);

  // Stores a calibration under `clusters/{cluster}/calibrations/` and the first 32 digits of the
  // digest of its content. So the digest in a plan leads to its calibration, and the same content
  // once more is OK and returns what is stored. Does not activate it.
  absl::StatusOr<v1::Calibration> Upload(const v1::UploadCalibrationRequest& request);
  // Returns the calibration of this name, whole.
  absl::StatusOr<v1::Calibration> Get(const v1::GetCalibrationRequest& request);
  // Returns one page, newest first, without coefficients and residual classes, which `Get` returns.
  absl::StatusOr<v1::ListCalibrationsResponse> List(const v1::ListCalibrationsRequest& request);
  // Makes the calibration of the request the active one of its cluster; one that is not stored is
  // NOT_FOUND. With an empty calibration, none is active afterwards. If none is active, the answer
  // of this and of `GetActive` has an empty name, and its time is that of the deactivation, absent
  // if none was ever active. Ask the name whether one is active, not the time.
  absl::StatusOr<v1::ActiveCalibration> Activate(const v1::ActivateCalibrationRequest& request);
  // Returns which calibration of the cluster is active and since when, as `Activate` does; no error
  // if none is or the cluster is not known.
  absl::StatusOr<v1::ActiveCalibration> GetActive(const v1::GetActiveCalibrationRequest& request);

  // Returns the resource name of the cluster's active calibration, for `Find`; empty for none, also
  // if no such cluster is known. Reads one row of the store.
  absl::StatusOr<std::string> ActiveName(absl::string_view cluster);

  // Returns the calibration stored under `name`, null for the empty name. It is kept in a cache,
  // since it never changes. DATA_LOSS (STORE_UNAVAILABLE) if this server cannot read it, because it
  // is damaged or was stored by a newer server; NOT_FOUND (RESOURCE_NOT_FOUND) for a name that is
  // not stored.
  absl::StatusOr<std::shared_ptr<const Calibration>> Find(const std::string& name);

 private:
  // Returns what is active now and reports it to the observer.
  absl::StatusOr<ActiveCalibrationRecord> ReadActive(absl::string_view cluster);

  Store& store_;
  const Clock& clock_;
  Observer& observer_;
  const Limits& limits_;
  LruCache<std::shared_ptr<const Calibration>> calibrations_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_CALIBRATION_CORE_H_
