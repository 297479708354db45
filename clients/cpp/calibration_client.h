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

// Methods and their errors are those of calibration_service.proto; an error of the server carries
// its `ErrorDetail`. Every call waits for its answer, at most `options.timeout`, then
// DEADLINE_EXCEEDED. A call that ends with UNAVAILABLE (also if no server answers) or CANCELLED is
// tried again, at most 4 attempts in all (retry.h). Safe to use from any thread.
class CalibrationClient {
 public:
  // `channel` is one of `MakeChannel`; several clients may share it.
  explicit CalibrationClient(std::shared_ptr<grpc::Channel> channel);
  // Takes a stub of a test.
  explicit CalibrationClient(std::unique_ptr<v1::CalibrationService::StubInterface> stub);

  // Fills in a new `request_id` if the request has none, so that all attempts of this call upload
  // one calibration. A caller that may repeat the call sets its own.
  absl::StatusOr<v1::Calibration> Upload(v1::UploadCalibrationRequest request,
                                         const CallOptions& options = {});
  absl::StatusOr<v1::Calibration> Get(const v1::GetCalibrationRequest& request,
                                      const CallOptions& options = {});
  absl::StatusOr<v1::ListCalibrationsResponse> List(const v1::ListCalibrationsRequest& request,
                                                    const CallOptions& options = {});
  absl::StatusOr<v1::ActiveCalibration> Activate(const v1::ActivateCalibrationRequest& request,
                                                 const CallOptions& options = {});
  absl::StatusOr<v1::ActiveCalibration> GetActive(const v1::GetActiveCalibrationRequest& request,
                                                  const CallOptions& options = {});

 private:
  const std::unique_ptr<v1::CalibrationService::StubInterface> stub_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_CALIBRATION_CLIENT_H_
