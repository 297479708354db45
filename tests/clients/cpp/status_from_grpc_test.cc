#include "clients/cpp/status_from_grpc.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/error.h"
#include "base/unreachable.h"
#include "parplan/v1/error_info.pb.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Returns the details of an error: one google.rpc.ErrorInfo with one fact.
std::string Details(const std::string& reason, const std::string& domain) {
  v1::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(domain);
  (*info.mutable_metadata())["field"] = "model";
  v1::RpcStatus details;
  v1::StatusDetail& detail = *details.add_details();
  detail.set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  detail.set_value(info.SerializeAsString());
  return details.SerializeAsString();
}

TEST(FromGrpcStatus, KeepsCodeMessageReasonAndFacts) {
  const absl::Status status = FromGrpcStatus(grpc::Status(
      grpc::StatusCode::INVALID_ARGUMENT, "wrong", Details("SPEC_INVALID", "parplan")));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "wrong"));
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, Reason::kSpecInvalid);
  EXPECT_EQ(detail->metadata.at("field"), "model");
}

TEST(FromGrpcStatus, AReasonOfALaterReleaseIsNoDetail) {
  for (const char* const reason : {"MOON_IN_THE_WAY", "UNSPECIFIED", ""}) {
    const grpc::Status status(grpc::StatusCode::ABORTED, "why", Details(reason, "parplan"));
    EXPECT_EQ(FromGrpcStatus(status), absl::AbortedError("why")) << reason;
  }
}

TEST(FromGrpcStatus, MarksCallsThatNothingAnswered) {
  const auto is_marked = [](const std::string& message) {
    return IsUnreachable(FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, message)));
  };
  EXPECT_TRUE(
      is_marked("connections to all backends failing; last error: UNKNOWN: ipv4:127.0.0.1:9: "
                "Failed to connect to remote host: Connection refused"));
  EXPECT_TRUE(is_marked("DNS resolution failed for nowhere:9477: UNAVAILABLE: not found"));
  EXPECT_FALSE(is_marked("Socket closed"));
  EXPECT_FALSE(
      is_marked("failed to connect to all addresses; last error: UNKNOWN: Ssl handshake "
                "failed: certificate verify failed"));
  EXPECT_FALSE(IsUnreachable(FromGrpcStatus(
      grpc::Status(grpc::StatusCode::INTERNAL, "Failed to connect to remote host"))));
}

TEST(FromGrpcStatus, DetailsOfOthersAreNoDetails) {
  for (const std::string& details : {std::string("\xff\xff"), std::string()}) {
    const absl::Status status =
        FromGrpcStatus(grpc::Status(grpc::StatusCode::ABORTED, "why", details));
    EXPECT_EQ(status, absl::AbortedError("why"));
  }
  const grpc::Status status(grpc::StatusCode::ABORTED, "why", Details("SPEC_INVALID", "elsewhere"));
  EXPECT_EQ(FromGrpcStatus(status), absl::AbortedError("why"));
}

}  // namespace
}  // namespace parplan
