#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(MakeError, CarriesReasonAndFacts) {
  const std::map<std::string, std::string> facts = {{"count", "2"}, {"empty", ""}};
  const absl::Status error =
      MakeError(absl::StatusCode::kNotFound, Reason::kResourceNotFound, "gone", facts);
  EXPECT_THAT(error, StatusIs(absl::StatusCode::kNotFound, "gone"));
  const std::optional<ErrorDetail> detail = GetErrorDetail(error);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, Reason::kResourceNotFound);
  EXPECT_EQ(detail->metadata, facts);
}

TEST(MakeError, NeedsNoFacts) {
  const std::optional<ErrorDetail> detail =
      GetErrorDetail(MakeError(absl::StatusCode::kUnavailable, Reason::kDraining, "ends"));
  ASSERT_TRUE(detail.has_value());
  EXPECT_THAT(detail->metadata, testing::IsEmpty());
}

TEST(FieldError, NamesFieldAndRule) {
  const absl::Status error = FieldError(Reason::kSpecInvalid, "model.layers", "is empty");
  EXPECT_THAT(error, StatusIs(absl::StatusCode::kInvalidArgument, "model.layers: is empty"));
  EXPECT_EQ(GetErrorDetail(error)->metadata.at("field"), "model.layers");
  EXPECT_EQ(GetErrorDetail(error)->metadata.at("rule"), "is empty");
}

TEST(GetErrorDetail, IsAbsentFromOtherStatuses) {
  EXPECT_FALSE(GetErrorDetail(absl::OkStatus()).has_value());
  EXPECT_FALSE(GetErrorDetail(absl::InternalError("broken")).has_value());
}

TEST(WithRetryDelay, AddsAndReplacesTheTimeAndKeepsTheRest) {
  absl::Status error =
      MakeError(absl::StatusCode::kResourceExhausted, Reason::kQueueFull, "full", {{"a", "b"}});
  EXPECT_EQ(GetRetryDelay(error), std::nullopt);
  error = WithRetryDelay(error, absl::Milliseconds(1500));
  EXPECT_EQ(GetRetryDelay(error), absl::Milliseconds(1500));
  EXPECT_EQ(GetRetryDelay(WithRetryDelay(error, absl::ZeroDuration())), absl::ZeroDuration());
  EXPECT_EQ(GetErrorDetail(error)->reason, Reason::kQueueFull);
  EXPECT_EQ(GetErrorDetail(error)->metadata.at("a"), "b");
  EXPECT_EQ(GetRetryDelay(WithRetryDelay(absl::OkStatus(), absl::Seconds(1))), std::nullopt);
}

TEST(ReasonName, DiffersFromReasonToReason) {
  std::map<std::string, int> seen;
  for (int value = 1; value <= static_cast<int>(Reason::kSearchOutOfMemory); ++value) {
    const std::string name(ReasonName(static_cast<Reason>(value)));
    EXPECT_NE(name, "UNKNOWN") << value;
    EXPECT_EQ(++seen[name], 1) << name;
  }
}

absl::StatusOr<int> Half(int number) {
  if (number % 2 != 0) return absl::InvalidArgumentError("odd");
  return number / 2;
}

absl::StatusOr<int> Quarter(int number) {
  PARPLAN_RETURN_IF_ERROR(Half(number).status());
  PARPLAN_ASSIGN_OR_RETURN(const int half, Half(number));
  PARPLAN_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

TEST(StatusMacros, ReturnTheFirstError) {
  EXPECT_THAT(Quarter(12), IsOkAndHolds(3));
  EXPECT_THAT(Quarter(3), StatusIs(absl::StatusCode::kInvalidArgument, "odd"));
  EXPECT_THAT(Quarter(6), StatusIs(absl::StatusCode::kInvalidArgument, "odd"));
}

}  // namespace
}  // namespace parplan
