#include "studies/accuracy/accuracy_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/clients/calibrate/accuracy_samples.h"
#include "tests/clients/report/page_form.h"

namespace parplan::accuracy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

TEST(AccuracyJson, HasTheMembersOfItsDescription) {
  const AccuracySummary summary = SampleSummary(200);
  const Json root = Json::parse(AccuracyJson(summary));
  EXPECT_EQ(root["calibration"], "built-in");
  EXPECT_THAT(root["slices"]["fitted"].get<std::string>(), HasSubstr("sha256(id) % 5"));
  ASSERT_EQ(root["sources"].size(), 5u);
  for (const Json& source : root["sources"]) {
    for (const char* member : {"count", "skipped", "time_mape", "time_median", "time_bias",
                               "memory_mape", "memory_bias", "memory_under_rate", "oom_total",
                               "oom_refused", "false_refusals", "unfitted", "groups"}) {
      EXPECT_TRUE(source.contains(member)) << member;
    }
    for (const char* member : {"count", "time_mape", "memory_mape", "false_refusals"}) {
      EXPECT_TRUE(source["unfitted"].contains(member)) << member;
    }
  }
  const SourceAccuracy& accuracy = summary.sources.at("vtrain-single");
  EXPECT_EQ(root["sources"]["vtrain-single"]["time_mape"], *accuracy.all.time_mape);
  EXPECT_NE(root["sources"]["vtrain-single"]["unfitted"]["count"], accuracy.all.count);
  EXPECT_TRUE(root["sources"]["only-memory"]["time_mape"].is_null());
  EXPECT_EQ(root["rows"].size(), 200u);
  for (const Json& row : root["rows"]) {
    for (const char* member :
         {"id", "source", "plan", "predicted_step_seconds", "measured_step_seconds", "time_error",
          "predicted_memory_bytes", "measured_memory_bytes", "memory_error", "memory_view",
          "predicted_memory_upper_bytes", "device_memory_bytes", "oom", "refused", "fitted",
          "time_items", "memory_items", "assumptions"}) {
      EXPECT_TRUE(row.contains(member)) << member;
    }
  }
  EXPECT_TRUE(root["rows"][0]["memory_items"].contains("optimizer_states"));
  EXPECT_EQ(root["groups"].size(), summary.groups.size());
  ASSERT_FALSE(root["groups"].empty());
  for (const char* member : {"source", "job", "plan_count", "regret", "rank_correlation"}) {
    EXPECT_TRUE(root["groups"][0].contains(member)) << member;
  }
  EXPECT_EQ(root["skipped"].size(), summary.skipped.size());
  EXPECT_EQ(root["skipped"][0]["id"], "skipped-0");
}

TEST(AccuracyText, SaysWhatMatters) {
  const std::string text = AccuracyText(SampleSummary(200));
  for (const char* part :
       {"vtrain-single", "unfitted", "worst of only-memory", "activations",
        "choosing by prediction", "num-layers is missing", "built-in", "sha256(id) % 5"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST(AccuracyHtml, IsWellFormedSmallAndAlone) {
  for (const int row_count : {0, 1, 40, 2000}) {
    const std::string page = AccuracyHtml(SampleSummary(row_count));
    EXPECT_EQ(FaultOfForm(page), "") << row_count;
    EXPECT_LT(page.size(), size_t{1} << 20) << row_count;
    EXPECT_THAT(page, Not(HasSubstr("<script")));
    EXPECT_THAT(page, Not(HasSubstr("nan%")));
    // Names of runs are only ever text.
    EXPECT_THAT(page, Not(HasSubstr("have-<&>")));
  }
}

TEST(AccuracyHtml, DrawsEveryMeasuredRun) {
  const AccuracySummary summary = SampleSummary(200);
  int point_count = 0;
  for (const AccuracyRow& row : summary.rows) {
    point_count += row.measured_step.has_value() ? 1 : 0;
    point_count += row.measured_memory.has_value() ? 1 : 0;
  }
  EXPECT_EQ(CountOf(AccuracyHtml(summary), "<circle"), point_count);
}

TEST(SkipReasons, CountsEqualReasonsOnce) {
  const std::vector<SkipReason> reasons = SkipReasons(SampleSummary(200));
  ASSERT_EQ(reasons.size(), 7u);
  EXPECT_EQ(reasons[0].count, 3);
  EXPECT_EQ(reasons[0].example, "skipped-0");
}

}  // namespace
}  // namespace parplan::accuracy
