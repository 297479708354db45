// Uploads calibrations to a server, and chooses the one that its plans use. `planctl calibration`
// uses it.

#ifndef PARPLAN_CLIENTS_CPP_CALIBRATION_CLIENT_H_
#define PARPLAN_CLIENTS_CPP_CALIBRATION_CLIENT_H_

#include <grpcpp/channel.h>

#include <memory>

#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"
#include "parplan/v1/calibration_service.grpc.pb.h"

namespace parplan {

// Methods are those of calibration_service.proto. Their errors are INVALID_ARGUMENT (SPEC_INVALID)
// naming the field of the request, NOT_FOUND (RESOURCE_NOT_FOUND), PERMISSION_DENIED
// (ROLE_REQUIRED), RESOURCE_EXHAUSTED and the failures of the server's store; an error of the
// server carries its `ErrorDetail` (base/error.h). Every call waits for its answer, at most
// `options.timeout`, then DEADLINE_EXCEEDED. A call that ends with UNAVAILABLE (also if no server
// answers) or CANCELLED is tried again, at most 4 attempts in all (retry.h). Safe to use from any
// thread.
class CalibrationClient {
 public:
  // `channel` is one of `MakeChannel`; several clients may share it.
  explicit CalibrationClient(std::shared_ptr<grpc::Channel> channel);
  // Takes a stub of a test.
  explicit CalibrationClient(std::unique_ptr<v1::CalibrationService::StubInterface> stub);

  // Stores a calibration and does not activate it. Fills in a new `request_id` if the request has
  // none, so that all attempts of this call upload one calibration. A caller that may repeat the
  // call sets its own; INVALID_ARGUMENT (REQUEST_ID_REUSED) for that of another calibration.
  absl::StatusOr<v1::Calibration> Upload(v1::UploadCalibrationRequest request,
                                         const CallOptions& options = {});
  // Returns the stored calibration of this name.
  absl::StatusOr<v1::Calibration> Get(const v1::GetCalibrationRequest& request,
                                      const CallOptions& options = {});
  // Returns one page of the calibrations of a cluster, newest first, without coefficients and
  // residual classes.
  absl::StatusOr<v1::ListCalibrationsResponse> List(const v1::ListCalibrationsRequest& request,
                                                    const CallOptions& options = {});
  // Makes a stored calibration the one that new plans of its cluster are made with; an empty name
  // makes none active.
  absl::StatusOr<v1::ActiveCalibration> Activate(const v1::ActivateCalibrationRequest& request,
                                                 const CallOptions& options = {});
  // Returns the active calibration of a cluster; its name is empty if none is.
  absl::StatusOr<v1::ActiveCalibration> GetActive(const v1::GetActiveCalibrationRequest& request,
                                                  const CallOptions& options = {});

 private:
  const std::unique_ptr<v1::CalibrationService::StubInterface> stub_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_CALIBRATION_CLIENT_H_
