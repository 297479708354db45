#include "clients/cpp/status_from_grpc.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "base/error.h"
#include "base/unreachable.h"
#include "parplan/v1/error_info.pb.h"

namespace parplan {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kDomain[] = "parplan";
constexpr char kReasonPrefix[] = "ERROR_REASON_";

// Returns whether gRPC made the status because no connection was made. Its messages are the only
// sign of that (gRPC 1.51): a server that drops the connection or fails the handshake gives the
// same code with another one.
bool IsOfNoConnection(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         (absl::StrContains(status.error_message(), "Failed to connect to remote host") ||
          absl::StrContains(status.error_message(), "DNS resolution failed"));
}

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
  absl::Status plain(code, status.error_message());
  return IsOfNoConnection(status) ? MarkUnreachable(std::move(plain)) : plain;
}

}  // namespace parplan
