// Checks how `planctl explain --measure-next` is printed, of measurements written here and of those
// found for the plan of the examples.

#include "clients/planctl/view/measure_next_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "clients/planctl/offline/offline_planner.h"
#include "tests/clients/planctl/commands/planctl_test_files.h"
#include "tests/clients/planctl/view/expect_tidy.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

UncertainCoefficient Uncertain(Coefficient coefficient, double plan_change, double rival_change) {
  UncertainCoefficient uncertain;
  uncertain.coefficient = coefficient;
  uncertain.value = 0.5;
  uncertain.width = 0.25;
  uncertain.plan_change = plan_change;
  uncertain.rival_change = rival_change;
  return uncertain;
}

// Two measurements of a plan of 2 s a step. The rival takes 10 % longer, as far as is known; what
// was not measured moves the difference by 5 %, of which layers are 64 % of the variance.
MeasureNext TwoMeasurements() {
  MeasureNext next;
  next.plan.step = Seconds::Of(2.0);
  next.plan.step_lower = Seconds::Of(1.5);
  next.plan.step_upper = Seconds::Of(3.0);
  next.log_time_ratio = std::log(1.1);
  next.plan_deviation = 0.1;
  next.difference_deviation = 0.05;
  MeasureStep layers;
  layers.target = MeasureTarget::kLayers;
  layers.plan_deviation = 0.08;
  layers.difference_deviation = 0.04;
  layers.share = 0.64;
  layers.coefficients = {Uncertain(Coefficient::kMatrixEfficiency, -0.08, -0.04)};
  layers.entries = {"layer_timings: decoder, tensor_parallel_degree 2, micro_batch_size 4"};
  MeasureStep network;
  network.target = MeasureTarget::kInterNodeCollectives;
  network.plan_deviation = 0.06;
  network.difference_deviation = 0.03;
  network.share = 0.36;
  network.coefficients = {Uncertain(Coefficient::kInterNodeEfficiency, -0.06, -0.03)};
  next.steps = {layers, network};
  return next;
}

TEST(MeasureNextView, NamesEachMeasurementWithItsShareItsCommandAndItsEntries) {
  const std::string text = MeasureNextText(TwoMeasurements(), /*has_rival=*/false);
  ExpectTidy(text);
  EXPECT_EQ(
      text,
      "What to measure next\n"
      "  The step is predicted to take 2.00 s, and what was not measured moves it by 10.00 % (one\n"
      "  standard deviation)\n"
      "\n"
      "   64 %  layers: moves the step by 8.00 %\n"
      "         parplan-agent --once --model MODEL --out profile.json\n"
      "         layer_timings: decoder, tensor_parallel_degree 2, micro_batch_size 4\n"
      "\n"
      "   36 %  collectives between nodes: moves the step by 6.00 %\n"
      "         parplan-agent --server SERVER --cluster CLUSTER --node NODE --link-node NODE\n"
      "         --link-node OTHER\n");
}

TEST(MeasureNextView, SaysWhichPlanIsFasterAndWhetherThatIsDecided) {
  MeasureNext next = TwoMeasurements();
  // The difference is 9.5 %, not twice 5 %.
  std::string text = MeasureNextText(next, /*has_rival=*/true);
  ExpectTidy(text);
  EXPECT_THAT(text, HasSubstr("The plan is predicted to be 10.00 % faster"));
  EXPECT_THAT(text, HasSubstr("measurements could turn it around"));
  EXPECT_THAT(text, HasSubstr("64 %  layers: moves the difference by 4.00 %\n"));
  EXPECT_TRUE(MeasureNextObject(next, true)["is_decided"] == false);

  next.difference_deviation = 0.04;
  text = MeasureNextText(next, true);
  EXPECT_THAT(text, HasSubstr("it decides nothing any more"));
  EXPECT_TRUE(MeasureNextObject(next, true)["is_decided"] == true);

  next.log_time_ratio = -std::log(1.02);
  text = MeasureNextText(next, true);
  EXPECT_THAT(text, HasSubstr("The rival is predicted to be 2.00 % faster"));
  EXPECT_THAT(text, HasSubstr("measurements could turn it around"));
}

TEST(MeasureNextView, SaysSoIfNothingIsEstimated) {
  MeasureNext next;
  next.plan.step = Seconds::Of(2.0);
  const std::string text = MeasureNextText(next, false);
  ExpectTidy(text);
  EXPECT_THAT(text, HasSubstr("nothing that is estimated moves this prediction"));
  EXPECT_TRUE(MeasureNextObject(next, false)["steps"].empty());
}

TEST(MeasureNextView, TextListsEightEntriesAndJsonAll) {
  MeasureNext next = TwoMeasurements();
  next.steps[0].entries.clear();
  for (int i = 0; i < 11; ++i) next.steps[0].entries.push_back(absl::StrCat("entry ", i));
  const std::string text = MeasureNextText(next, false);
  EXPECT_THAT(text, HasSubstr("         entry 7\n         and 3 more\n"));
  EXPECT_THAT(text, Not(HasSubstr("entry 8")));
  EXPECT_EQ(MeasureNextObject(next, false)["steps"][0]["entries"].size(), 11u);
}

TEST(MeasureNextView, JsonHasWhatBelongsToARivalOnlyWithOne) {
  const nlohmann::ordered_json alone = MeasureNextObject(TwoMeasurements(), false);
  EXPECT_EQ(alone["step_seconds"], 2.0);
  EXPECT_EQ(alone["step_seconds_lower"], 1.5);
  EXPECT_EQ(alone["step_seconds_upper"], 3.0);
  EXPECT_EQ(alone["plan_deviation"], 0.1);
  for (const char* name : {"log_time_ratio", "difference_deviation", "is_decided"}) {
    EXPECT_FALSE(alone.contains(name)) << name;
  }
  EXPECT_FALSE(alone["steps"][0].contains("difference_deviation"));
  EXPECT_FALSE(alone["steps"][0]["coefficients"][0].contains("rival_change"));

  const nlohmann::ordered_json both = MeasureNextObject(TwoMeasurements(), true);
  EXPECT_EQ(both["log_time_ratio"], std::log(1.1));
  EXPECT_EQ(both["difference_deviation"], 0.05);
  const nlohmann::ordered_json& step = both["steps"][0];
  EXPECT_EQ(step["target"], "layers");
  EXPECT_EQ(step["share"], 0.64);
  EXPECT_EQ(step["plan_deviation"], 0.08);
  EXPECT_EQ(step["difference_deviation"], 0.04);
  EXPECT_EQ(step["command"], "parplan-agent --once --model MODEL --out profile.json");
  const nlohmann::ordered_json& coefficient = step["coefficients"][0];
  EXPECT_EQ(coefficient["coefficient"], "matrix_efficiency");
  EXPECT_EQ(coefficient["value"], 0.5);
  EXPECT_EQ(coefficient["width"], 0.25);
  EXPECT_EQ(coefficient["plan_change"], -0.08);
  EXPECT_EQ(coefficient["rival_change"], -0.04);
}

TEST(MeasureNextView, EveryTargetHasACommandThatFits) {
  for (int i = 0; i < kMeasureTargetCount; ++i) {
    MeasureNext next = TwoMeasurements();
    next.steps[0].target = static_cast<MeasureTarget>(i);
    ExpectTidy(MeasureNextText(next, false));
    ExpectTidy(MeasureNextText(next, true));
    const nlohmann::ordered_json step = MeasureNextObject(next, false)["steps"][0];
    EXPECT_EQ(step["target"], std::string(MeasureTargetName(next.steps[0].target)));
    EXPECT_NE(step["command"], "");
  }
}

TEST(MeasureNextView, ShowsEachMeasurementThatWasFoundForAPlan) {
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem,
                       OfflineProblem(ExampleSpec(), ExampleProfiles()));
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(ExampleSpec(), ExampleProfiles()));
  const Plan& plan = view.plan;
  ASSERT_OK_AND_ASSIGN(const MeasureNext next, FindMeasureNext({problem, plan}, nullptr));
  ASSERT_FALSE(next.steps.empty());
  const std::string text = MeasureNextText(next, false);
  ExpectTidy(text);
  const nlohmann::ordered_json json = MeasureNextObject(next, false);
  ASSERT_EQ(json["steps"].size(), next.steps.size());
  for (size_t i = 0; i < next.steps.size(); ++i) {
    const std::string name(MeasureTargetName(next.steps[i].target));
    EXPECT_THAT(text, HasSubstr(absl::StrCat(" %  ", name, ": moves the step by ")));
    EXPECT_EQ(json["steps"][i]["target"], name);
    EXPECT_EQ(json["steps"][i]["entries"].size(), next.steps[i].entries.size());
  }
}

}  // namespace
}  // namespace parplan::planctl
