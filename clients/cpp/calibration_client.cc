#include "clients/cpp/calibration_client.h"

#include <utility>

#include "clients/cpp/unary.h"

namespace parplan {
namespace {

using CalibrationStub = v1::CalibrationService::StubInterface;

}  // namespace

CalibrationClient::CalibrationClient(std::shared_ptr<grpc::Channel> channel)
    : stub_(v1::CalibrationService::NewStub(std::move(channel))) {}

CalibrationClient::CalibrationClient(std::unique_ptr<v1::CalibrationService::StubInterface> stub)
    : stub_(std::move(stub)) {}

absl::StatusOr<v1::Calibration> CalibrationClient::Upload(v1::UploadCalibrationRequest request,
                                                          const CallOptions& options) {
  if (request.request_id().empty()) request.set_request_id(MakeUuid());
  return CallUnary(*stub_, &CalibrationStub::UploadCalibration, request, options);
}

absl::StatusOr<v1::Calibration> CalibrationClient::Get(const v1::GetCalibrationRequest& request,
                                                       const CallOptions& options) {
  return CallUnary(*stub_, &CalibrationStub::GetCalibration, request, options);
}

absl::StatusOr<v1::ListCalibrationsResponse> CalibrationClient::List(
    const v1::ListCalibrationsRequest& request, const CallOptions& options) {
  return CallUnary(*stub_, &CalibrationStub::ListCalibrations, request, options);
}

absl::StatusOr<v1::ActiveCalibration> CalibrationClient::Activate(
    const v1::ActivateCalibrationRequest& request, const CallOptions& options) {
  return CallUnary(*stub_, &CalibrationStub::ActivateCalibration, request, options);
}

absl::StatusOr<v1::ActiveCalibration> CalibrationClient::GetActive(
    const v1::GetActiveCalibrationRequest& request, const CallOptions& options) {
  return CallUnary(*stub_, &CalibrationStub::GetActiveCalibration, request, options);
}

}  // namespace parplan
