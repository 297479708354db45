#include "server/rpc/status_to_grpc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "clients/cpp/status_from_grpc.h"
#include "parplan/v1/error_info.pb.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

absl::Status Missing(int count, const std::string& name) {
  std::map<std::string, std::string> metadata = {{"count", absl::StrCat(count)}};
  std::string message = "measurements are missing:";
  for (int i = 0; i < count; ++i) {
    const std::string item = absl::StrCat(name, " ", i);
    absl::StrAppend(&message, "\n", item);
    metadata[absl::StrCat("missing", i)] = item;
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing, message,
                   metadata);
}

size_t WireBytes(const grpc::Status& status) {
  return status.error_message().size() + (status.error_details().size() + 2) / 3 * 4;
}

TEST(ToGrpcStatus, OkStaysOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_OK(FromGrpcStatus(grpc::Status::OK));
}

TEST(ToGrpcStatus, DetailsAreAGoogleRpcStatusWithAnErrorInfo) {
  const absl::Status error =
      MakeError(absl::StatusCode::kNotFound, Reason::kResourceNotFound, "gone", {{"name", "x"}});
  // google.rpc.Status{code 5, message, details Any{type_url, value}}, by hand.
  const std::string info =
      std::string("\x0a\x12RESOURCE_NOT_FOUND\x12\x07parplan\x1a\x09\x0a\x04name\x12\x01x", 40);
  const std::string url = "type.googleapis.com/google.rpc.ErrorInfo";
  const std::string any = std::string("\x0a") + static_cast<char>(url.size()) + url + "\x12" +
                          static_cast<char>(info.size()) + info;
  const std::string expected =
      std::string("\x08\x05\x12\x04gone\x1a") + static_cast<char>(any.size()) + any;
  EXPECT_EQ(ToGrpcStatus(error).error_details(), expected);
  EXPECT_EQ(ToGrpcStatus(error).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ToGrpcStatus(error).error_message(), "gone");
}

TEST(ToGrpcStatus, EveryReasonComesBackFromTheWire) {
  for (int number = 1; number < v1::ErrorReason_ARRAYSIZE; ++number) {
    const Reason reason = static_cast<Reason>(number);
    const absl::Status error =
        MakeError(absl::StatusCode::kUnavailable, reason, "why", {{"a", "b"}, {"c", ""}});
    EXPECT_EQ(v1::ErrorReason_Name(static_cast<v1::ErrorReason>(number)),
              absl::StrCat("ERROR_REASON_", ReasonName(reason)));
    const absl::Status back = FromGrpcStatus(ToGrpcStatus(error));
    EXPECT_EQ(back.code(), error.code());
    EXPECT_EQ(back.message(), error.message());
    ASSERT_TRUE(GetErrorDetail(back).has_value()) << number;
    EXPECT_EQ(GetErrorDetail(back)->reason, reason);
    EXPECT_EQ(GetErrorDetail(back)->metadata, GetErrorDetail(error)->metadata);
  }
}

TEST(ToGrpcStatus, ATimeToRetryIsAGoogleRpcRetryInfoAfterTheErrorInfo) {
  const absl::Status error =
      WithRetryDelay(MakeError(absl::StatusCode::kResourceExhausted, Reason::kQueueFull, "full"),
                     absl::Milliseconds(2500));
  const grpc::Status status = ToGrpcStatus(error);
  v1::RpcStatus details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  ASSERT_EQ(details.details_size(), 2);
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  EXPECT_EQ(details.details(1).type_url(), "type.googleapis.com/google.rpc.RetryInfo");
  // RetryInfo{retry_delay Duration{seconds 2, nanos 500000000}}, by hand.
  EXPECT_EQ(details.details(1).value(),
            std::string("\x0a\x08\x08\x02\x10\x80\xca\xb5\xee\x01", 10));
  EXPECT_EQ(GetRetryDelay(FromGrpcStatus(status)), absl::Milliseconds(2500));
  EXPECT_EQ(GetRetryDelay(FromGrpcStatus(ToGrpcStatus(absl::InternalError("broken")))),
            std::nullopt);
}

TEST(ToGrpcStatus, AnErrorWithoutReasonHasNoDetails) {
  const grpc::Status status = ToGrpcStatus(absl::InternalError("broken"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_details(), "");
}

TEST(ToGrpcStatus, FortyMissingMeasurementsAllArrive) {
  const absl::Status error = Missing(40, "layer decoder, tensor parallel 4, micro-batch 8, seq");
  const grpc::Status status = ToGrpcStatus(error);
  EXPECT_LE(WireBytes(status), kMaxErrorBytes);
  const absl::Status back = FromGrpcStatus(status);
  EXPECT_EQ(GetErrorDetail(back)->metadata, GetErrorDetail(error)->metadata);
}

TEST(ToGrpcStatus, AHugeErrorFitsIntoTheMetadataAndSaysWhatItLost) {
  const grpc::Status status = ToGrpcStatus(Missing(100, std::string(100, 'k')));
  EXPECT_LE(WireBytes(status), kMaxErrorBytes);
  v1::RpcStatus details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.message(), status.error_message());
  const absl::Status back = FromGrpcStatus(status);
  const std::map<std::string, std::string> metadata = GetErrorDetail(back)->metadata;
  EXPECT_EQ(metadata.at("count"), "100");
  const int omitted = std::stoi(metadata.at("omittedCount"));
  EXPECT_GT(omitted, 0);
  EXPECT_EQ(metadata.size() - 2 + omitted, 100u);
}

TEST(ToGrpcStatus, AMessageIsCutBetweenCharacters) {
  std::string message;
  for (int i = 0; i < 5000; ++i) message += "\xc3\xa9";
  const grpc::Status status = ToGrpcStatus(absl::InternalError(message));
  EXPECT_LT(status.error_message().size(), 2500u);
  EXPECT_EQ(status.error_message().substr(status.error_message().size() - 8), "\xc3\xa9 [...]");
}

}  // namespace
}  // namespace parplan
