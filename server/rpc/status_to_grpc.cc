#include "server/rpc/status_to_grpc.h"

#include <google/protobuf/message.h>

#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "parplan/v1/error_info.pb.h"
#include "parplan/v1/execution.pb.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "proto/wire/duration_wire.h"
#include "server/core/observer.h"
#include "server/metrics/label.h"

namespace parplan {
namespace {

// server/metrics includes no generated headers, and has arrays of these lengths.
static_assert(v1::ErrorReason_MAX == kReasonCount);
static_assert(v1::Phase_MAX == kPhaseCount);
static_assert(v1::MemoryItemKind_MAX == kMemoryItemCount);
static_assert(v1::Collective_MAX == kCollectiveCount);

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr char kDomain[] = "parplan";
constexpr size_t kShortMessageBytes = 400;
constexpr char kCut[] = " [...]";

// Returns the bytes of `text` as `grpc-message`, which is percent-encoded.
size_t EncodedBytes(absl::string_view text) {
  size_t bytes = 0;
  for (const char c : text) bytes += c >= 0x20 && c < 0x7f && c != '%' ? 1 : 3;
  return bytes;
}

// Returns the beginning of `text`, cut between two characters of UTF-8.
std::string Beginning(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), kCut);
}

void AddDetail(const char* url, const google::protobuf::Message& content, v1::RpcStatus& status) {
  v1::StatusDetail& any = *status.add_details();
  any.set_type_url(url);
  any.set_value(content.SerializeAsString());
}

std::string Serialize(int code, const std::string& message, const ErrorDetail& detail,
                      std::optional<absl::Duration> retry_delay) {
  v1::ErrorInfo info;
  info.set_reason(std::string(ReasonName(detail.reason)));
  info.set_domain(kDomain);
  for (const auto& [key, value] : detail.metadata) (*info.mutable_metadata())[key] = value;
  v1::RpcStatus status;
  status.set_code(code);
  status.set_message(message);
  AddDetail(kErrorInfoUrl, info, status);
  if (retry_delay.has_value()) {
    v1::RetryInfo retry;
    *retry.mutable_retry_duration() = DurationToProto(*retry_delay);
    AddDetail(kRetryInfoUrl, retry, status);
  }
  return status.SerializeAsString();
}

// Returns the bytes of message and details on the wire: percent-encoded and in base64.
size_t WireBytes(const std::string& message, const std::string& details) {
  return EncodedBytes(message) + (details.size() + 2) / 3 * 4;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const int code = static_cast<int>(status.code());
  std::string message(status.message());
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value()) {
    if (EncodedBytes(message) > kMaxErrorBytes) message = Beginning(message, kMaxErrorBytes / 3);
    return grpc::Status(static_cast<grpc::StatusCode>(code), message);
  }
  const std::optional<absl::Duration> retry_delay = GetRetryDelay(status);
  std::string details = Serialize(code, message, *detail, retry_delay);
  if (WireBytes(message, details) > kMaxErrorBytes) {
    message = Beginning(message, kShortMessageBytes);
    details = Serialize(code, message, *detail, retry_delay);
  }
  int omitted = 0;
  while (WireBytes(message, details) > kMaxErrorBytes && !detail->metadata.empty()) {
    detail->metadata.erase("omittedCount");
    detail->metadata.erase(std::prev(detail->metadata.end()));
    detail->metadata["omittedCount"] = absl::StrCat(++omitted);
    details = Serialize(code, message, *detail, retry_delay);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(code), message, details);
}

}  // namespace parplan
