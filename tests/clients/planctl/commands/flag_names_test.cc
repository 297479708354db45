#include "clients/planctl/commands/flag_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"
#include "base/error.h"
#include "base/unreachable.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string MessageOf(const std::string& field) {
  return std::string(
      NameFlags(FieldError(Reason::kSpecInvalid, field, "must not be negative")).message());
}

TEST(NameFlags, AddsTheFlagOfAFieldOfAQuestion) {
  EXPECT_EQ(MessageOf("options.micro_batch_count"),
            "options.micro_batch_count: must not be negative (--micro-batches)");
  // A server names the field of its request.
  EXPECT_EQ(MessageOf("spec.options.runtime_id"),
            "spec.options.runtime_id: must not be negative (--runtime)");
  EXPECT_EQ(MessageOf("money.devices[0].power_watts"),
            "money.devices[0].power_watts: must not be negative (--power)");
  EXPECT_EQ(MessageOf("money.step_count"),
            "money.step_count: must not be negative (--steps, --samples, --tokens)");
}

TEST(NameFlags, LeavesOtherFieldsAndFlagsAsTheyAre) {
  for (const char* const field : {"--target", "planner", "schedule", "options", "options.unheard",
                                  "model.layer_runs[0].options_x", "stages[0].schedule"}) {
    EXPECT_EQ(MessageOf(field), std::string(field) + ": must not be negative");
  }
  EXPECT_EQ(NameFlags(absl::OkStatus()), absl::OkStatus());
  EXPECT_EQ(NameFlags(absl::InternalError("options.planner")).message(), "options.planner");
}

TEST(NameFlags, SaysHowMissingMeasurementsAreEstimated) {
  const absl::Status missing =
      MakeError(absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing,
                "Measure them, or set allow_estimates", {{"measurements", "x"}});
  const absl::Status named = NameFlags(WithRetryDelay(missing, absl::Seconds(1)));
  EXPECT_EQ(named.message(), "Measure them, or set allow_estimates (--allow-estimates)");
  EXPECT_EQ(named.code(), missing.code());
  EXPECT_EQ(GetErrorDetail(named)->metadata, GetErrorDetail(missing)->metadata);
  EXPECT_EQ(GetRetryDelay(named), absl::Seconds(1));
}

TEST(NameFlags, AsksForTlsWhereAConnectionWasDropped) {
  const absl::Status dropped = absl::UnavailableError(
      "connections to all backends failing; last error: UNAVAILABLE: ipv4:1.2.3.4:5: Socket "
      "closed");
  EXPECT_THAT(NameFlags(dropped), StatusIs(absl::StatusCode::kUnavailable,
                                           AllOf(StartsWith(dropped.message()), HasSubstr("--tls"),
                                                 HasSubstr("--tls-key"))));
  // Nothing answered there, or a server did.
  for (const absl::Status& other :
       {MarkUnreachable(dropped), absl::UnavailableError("busy"),
        MakeError(absl::StatusCode::kUnavailable, Reason::kDraining, "stops")}) {
    EXPECT_EQ(NameFlags(other), other);
  }
}

}  // namespace
}  // namespace parplan::planctl
