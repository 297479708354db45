#include "studies/papers/overlap_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace parplan::papers {
namespace {

MeasuredPlan Plan(double predicted, double without, double measured) {
  return {.set = "a",
          .plan = "DP2",
          .slowdown = 2.0,
          .predicted_ms = predicted,
          .predicted_without_slowdown_ms = without,
          .measured_ms = measured,
          .median_uncertainty_ms = 5,
          .p10_ms = 90,
          .p90_ms = 120};
}

TEST(MeasuredPlan, ErrorsAreOverWhatWasMeasured) {
  const MeasuredPlan plan = Plan(110, 80, 100);
  EXPECT_NEAR(plan.Error(), 0.1, 1e-12);
  EXPECT_NEAR(plan.ErrorWithoutSlowdown(), -0.2, 1e-12);
}

TEST(MedianError, IsOfAbsoluteErrors) {
  const auto error = [](const MeasuredPlan& plan) { return plan.Error(); };
  EXPECT_NEAR(MedianError({Plan(90, 0, 100), Plan(105, 0, 100), Plan(130, 0, 100)}, error), 0.1,
              1e-12);
  EXPECT_NEAR(MedianError({Plan(90, 0, 100), Plan(120, 0, 100)}, error), 0.15, 1e-12);
}

// The median is within 95 and 105, so predictions must be more than 10 ms apart to decide.
TEST(MeasuredPlan, DecidesOnlyBeyondTheIntervalOfTheMedian) {
  EXPECT_FALSE(Plan(100, 100, 100).Decides());
  EXPECT_FALSE(Plan(104, 94, 100).Decides());
  EXPECT_TRUE(Plan(104, 93, 100).Decides());
  EXPECT_TRUE(Plan(104, 93, 100).SlowdownIsCloser());
  EXPECT_TRUE(Plan(120, 99, 100).Decides());
  EXPECT_FALSE(Plan(120, 99, 100).SlowdownIsCloser());
}

TEST(OverlapErrorsOf, CountsPlansThatDecide) {
  const OverlapErrors errors =
      OverlapErrorsOf({Plan(98, 70, 100), Plan(110, 110, 100), Plan(130, 99, 100)});
  EXPECT_NEAR(errors.median_with, 0.1, 1e-12);
  EXPECT_NEAR(errors.median_without, 0.1, 1e-12);
  EXPECT_NEAR(errors.worst_with, 0.3, 1e-12);
  EXPECT_NEAR(errors.worst_without, 0.3, 1e-12);
  EXPECT_EQ(errors.decided_count, 2);
  EXPECT_EQ(errors.closer_count, 1);
}

TEST(BySet, KeepsTheOrderOfSets) {
  MeasuredPlan other = Plan(100, 100, 100);
  other.set = "overlap";
  const std::vector<std::vector<MeasuredPlan>> sets =
      BySet({Plan(1, 1, 1), other, Plan(2, 2, 2), other});
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0], (std::vector<MeasuredPlan>{Plan(1, 1, 1), Plan(2, 2, 2)}));
  EXPECT_EQ(sets[1], (std::vector<MeasuredPlan>{other, other}));
}

TEST(ParseMeasuredPlans, ReadsRowsAndNamesWhatIsWrong) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<MeasuredPlan> plans,
      ParseMeasuredPlans(R"([{"set": "a", "plan": "DP2", "slowdown": 2.0, "predicted_ms": 110.0,
        "predicted_without_slowdown_ms": 80.0, "measured_ms": 100.0,
        "median_uncertainty_ms": 5, "p10_ms": 90, "p90_ms": 120}])"));
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0], Plan(110, 80, 100));
  for (const char* const text : {"", "[]", "[3]", R"([{"set": "a"}])"}) {
    EXPECT_THAT(ParseMeasuredPlans(text).status().message(), testing::HasSubstr("--runs"));
  }
  EXPECT_THAT(
      ParseMeasuredPlans(R"([{"set": "a", "plan": "DP2", "slowdown": 2.0, "predicted_ms": 1.0,
        "predicted_without_slowdown_ms": 8.0, "measured_ms": 0.0,
        "median_uncertainty_ms": 5, "p10_ms": 90, "p90_ms": 120}])")
          .status()
          .message(),
      testing::HasSubstr("above 0"));
}

}  // namespace
}  // namespace parplan::papers
