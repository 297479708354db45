#include "clients/cpp/status_from_grpc.h"

#include <map>
#include <string>

#include "base/error.h"
#include "parplan/v1/error_info.pb.h"

namespace parplan {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kDomain[] = "parplan";
constexpr char kReasonPrefix[] = "ERROR_REASON_";

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  v1::RpcStatus details;
  if (details.ParseFromString(status.error_details())) {
    for (const v1::StatusDetail& any : details.details()) {
      v1::ErrorInfo info;
      v1::ErrorReason reason = v1::ERROR_REASON_UNSPECIFIED;
      if (any.type_url() != kErrorInfoUrl || !info.ParseFromString(any.value()) ||
          info.domain() != kDomain ||
          !v1::ErrorReason_Parse(kReasonPrefix + info.reason(), &reason) ||
          reason == v1::ERROR_REASON_UNSPECIFIED) {
        continue;
      }
      return MakeError(
          code, static_cast<Reason>(reason), status.error_message(),
          std::map<std::string, std::string>(info.metadata().begin(), info.metadata().end()));
    }
  }
  return absl::Status(code, status.error_message());
}

}  // namespace parplan
