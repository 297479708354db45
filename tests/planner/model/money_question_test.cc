#include "planner/model/money_question.h"

#include <limits>
#include <string>

#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::string FieldOf(const absl::Status& status) {
  return std::string(absl::StripPrefix(Rejection(status), "SPEC_INVALID "));
}

TEST(DeviceTerms, RefusesWhatIsNoPriceOrPower) {
  const DeviceTerms good = {.device_kind = "a", .price_per_device_hour = 0.0};
  EXPECT_OK(DeviceTerms::Create(good, "f").status());
  for (const double price : {kNan, kInfinite, -1.0, 2e6}) {
    DeviceTerms terms = good;
    terms.price_per_device_hour = price;
    EXPECT_EQ(FieldOf(DeviceTerms::Create(terms, "f").status()), "f.price_per_device_hour");
  }
  for (const double power : {kNan, kInfinite, -1.0, 0.0, 2e5}) {
    DeviceTerms terms = good;
    terms.power_watts = power;
    EXPECT_EQ(FieldOf(DeviceTerms::Create(terms, "f").status()), "f.power_watts");
  }
  for (const double power : {kNan, -1.0, 701.0}) {
    DeviceTerms terms = good;
    terms.power_watts = 700.0;
    terms.idle_power_watts = power;
    EXPECT_EQ(FieldOf(DeviceTerms::Create(terms, "f").status()), "f.idle_power_watts");
  }
  EXPECT_EQ(
      FieldOf(DeviceTerms::Create({.device_kind = "a", .idle_power_watts = 5.0}, "f").status()),
      "f.power_watts");
  EXPECT_EQ(FieldOf(DeviceTerms::Create({}, "f").status()), "f.device_kind");
}

TEST(RunLength, IsInExactlyOneUnit) {
  EXPECT_OK(RunLength::Create({.step_count = kMaxRunStepCount}, "f").status());
  EXPECT_OK(RunLength::Create({.token_count = 1}, "f").status());
  EXPECT_EQ(FieldOf(RunLength::Create({}, "f").status()), "f.step_count");
  EXPECT_EQ(FieldOf(RunLength::Create({.step_count = 1, .sample_count = 1}, "f").status()),
            "f.step_count");
  EXPECT_EQ(FieldOf(RunLength::Create({.sample_count = -1}, "f").status()), "f.sample_count");
  EXPECT_EQ(FieldOf(RunLength::Create({.token_count = kMaxRunTokenCount + 1}, "f").status()),
            "f.token_count");
}

TEST(LengthWithoutTokens, RoundsTokensUpToSamplesAndSamplesToSteps) {
  const auto model = SyntheticModel({});
  const int64_t sequence = model->layer(0).sequence_length;
  ASSERT_OK_AND_ASSIGN(const RunLength length,
                       LengthWithoutTokens({.token_count = 16 * sequence + 1}, *model,
                                           /*searches_batch=*/true, "f"));
  EXPECT_EQ(length.sample_count, 17);
  EXPECT_EQ(StepCountOf(length, 16), 2);
  EXPECT_EQ(StepCountOf(length, 17), 1);
  EXPECT_EQ(StepCountOf({.step_count = 5}, 16), 5);
}

TEST(LengthWithoutTokens, RefusesStepsOfSeveralBatches) {
  const auto model = SyntheticModel({});
  EXPECT_OK(LengthWithoutTokens({.step_count = 5}, *model, false, "f").status());
  EXPECT_EQ(FieldOf(LengthWithoutTokens({.step_count = 5}, *model, true, "f").status()),
            "f.step_count");
}

TEST(MoneyLimits, RefusesWhatIsNoLimit) {
  EXPECT_OK(MoneyLimits::Create({.deadline = Seconds::Of(1), .budget = 0.0}, "f").status());
  for (const double deadline : {kNan, kInfinite, 0.0, -1.0}) {
    EXPECT_EQ(FieldOf(MoneyLimits::Create({.deadline = Seconds::Of(deadline)}, "f").status()),
              "f.deadline_duration");
  }
  for (const double budget : {kNan, kInfinite, -1.0}) {
    EXPECT_EQ(FieldOf(MoneyLimits::Create({.budget = budget}, "f").status()), "f.budget");
  }
}

}  // namespace
}  // namespace parplan
