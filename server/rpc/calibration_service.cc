// `CalibrationService` of services.h.

#include "server/core/calibration_core.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"

namespace parplan {

CalibrationService::CalibrationService(const RpcContext& rpc)
    : BoundedService(rpc.requests), rpc_(rpc) {
  Bound("UploadCalibration", this, &CalibrationService::UploadCalibration);
  Bound("GetCalibration", this, &CalibrationService::GetCalibration);
  Bound("ListCalibrations", this, &CalibrationService::ListCalibrations);
  Bound("ActivateCalibration", this, &CalibrationService::ActivateCalibration);
  Bound("GetActiveCalibration", this, &CalibrationService::GetActiveCalibration);
}

grpc::ServerUnaryReactor* CalibrationService::UploadCalibration(
    grpc::CallbackServerContext* context, const v1::UploadCalibrationRequest* request,
    v1::Calibration* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.calibrations().Upload(*request); });
}

grpc::ServerUnaryReactor* CalibrationService::GetCalibration(
    grpc::CallbackServerContext* context, const v1::GetCalibrationRequest* request,
    v1::Calibration* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.calibrations().Get(*request); });
}

grpc::ServerUnaryReactor* CalibrationService::ListCalibrations(
    grpc::CallbackServerContext* context, const v1::ListCalibrationsRequest* request,
    v1::ListCalibrationsResponse* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.calibrations().List(*request); });
}

grpc::ServerUnaryReactor* CalibrationService::ActivateCalibration(
    grpc::CallbackServerContext* context, const v1::ActivateCalibrationRequest* request,
    v1::ActiveCalibration* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.calibrations().Activate(*request); });
}

grpc::ServerUnaryReactor* CalibrationService::GetActiveCalibration(
    grpc::CallbackServerContext* context, const v1::GetActiveCalibrationRequest* request,
    v1::ActiveCalibration* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.calibrations().GetActive(*request); });
}

}  // namespace parplan
