#include "clients/cpp/status_from_grpc.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/unreachable.h"
#include "parplan/v1/error_info.pb.h"
#include "proto/wire/duration_wire.h"

namespace parplan {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";
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

// Returns the error with its reason, or OK if `content` has none that this release knows.
absl::Status ReadErrorInfo(const grpc::Status& status, const std::string& content) {
  v1::ErrorInfo info;
  v1::ErrorReason reason = v1::ERROR_REASON_UNSPECIFIED;
  if (!info.ParseFromString(content) || info.domain() != kDomain ||
      !v1::ErrorReason_Parse(kReasonPrefix + info.reason(), &reason) ||
      reason == v1::ERROR_REASON_UNSPECIFIED) {
    return absl::OkStatus();
  }
  return MakeError(
      static_cast<absl::StatusCode>(status.error_code()), static_cast<Reason>(reason),
      status.error_message(),
      std::map<std::string, std::string>(info.metadata().begin(), info.metadata().end()));
}

std::optional<absl::Duration> ReadRetryInfo(const std::string& content) {
  v1::RetryInfo info;
  if (!info.ParseFromString(content)) return std::nullopt;
  const absl::StatusOr<absl::Duration> delay =
      DurationFromProto(info.retry_duration(), "retry_duration");
  if (!delay.ok() || *delay < absl::ZeroDuration()) return std::nullopt;
  return *delay;
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  v1::RpcStatus details;
  if (details.ParseFromString(status.error_details())) {
    absl::Status detailed;
    std::optional<absl::Duration> retry_delay;
    for (const v1::StatusDetail& any : details.details()) {
      if (any.type_url() == kErrorInfoUrl && detailed.ok()) {
        detailed = ReadErrorInfo(status, any.value());
      } else if (any.type_url() == kRetryInfoUrl) {
        retry_delay = ReadRetryInfo(any.value());
      }
    }
    if (!detailed.ok()) {
      return retry_delay.has_value() ? WithRetryDelay(std::move(detailed), *retry_delay) : detailed;
    }
  }
  absl::Status plain(code, status.error_message());
  return IsOfNoConnection(status) ? MarkUnreachable(std::move(plain)) : plain;
}

}  // namespace parplan
