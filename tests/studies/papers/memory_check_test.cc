#include "studies/papers/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace parplan::papers {
namespace {

using ::testing::HasSubstr;

// What GoogleTest writes, without the members that are not read.
constexpr char kFile[] = R"({"tests": 4, "testsuites": [
  {"name": "SgdMemory", "testsuite": [{"name": "HasNoOptimizerStates"}]},
  {"name": "Plans/MemoryPrediction", "testsuite": [
    {"name": "FromAProfile/Dp2", "peak_error": "0.01"},
    {"name": "FromAProfile/Tp2", "peak_error": "-0.03"},
    {"name": "FromTheory/Dp2", "peak_error": "0.02"}]}]})";

TEST(ParseMeasuredMemory, ReadsThePropertyOfEachTest) {
  ASSERT_OK_AND_ASSIGN(const std::vector<MeasuredMemory> plans, ParseMeasuredMemory(kFile));
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[0], (MeasuredMemory{.plan = "Dp2", .from_profile = true, .error = 0.01}));
  EXPECT_EQ(plans[2], (MeasuredMemory{.plan = "Dp2", .from_profile = false, .error = 0.02}));
}

TEST(ParseMeasuredMemory, NamesWhatIsWrong) {
  for (const char* const text :
       {"", "[3]", R"({"testsuites": []})",
        R"({"testsuites": [{"testsuite": [{"name": "a", "peak_error": "far"}]}]})"}) {
    EXPECT_THAT(ParseMeasuredMemory(text).status().message(), HasSubstr("--memory-runs"));
  }
  EXPECT_THAT(ParseMeasuredMemory(
                  R"({"testsuites": [{"testsuite": [{"name": "FromTheory/a", "peak_error": "0.5",
              "failures": [{"failure": "f"}]}]}]})")
                  .status()
                  .message(),
              HasSubstr("`FromTheory/a` failed"));
}

TEST(ErrorsOf, AreTheMedianAndTheWorstMagnitude) {
  ASSERT_OK_AND_ASSIGN(const std::vector<MeasuredMemory> plans, ParseMeasuredMemory(kFile));
  const MemoryErrors errors = ErrorsOf(plans, /*from_profile=*/true);
  EXPECT_EQ(errors.plan_count, 2);
  EXPECT_NEAR(errors.median, 0.02, 1e-12);
  EXPECT_NEAR(errors.worst, 0.03, 1e-12);
  EXPECT_EQ(errors.worst_plan, "Tp2");
  EXPECT_EQ(ErrorsOf({}, true).plan_count, 0);
}

}  // namespace
}  // namespace parplan::papers
