#include "clients/planctl/runs/run_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "clients/planctl/runs/run_results_view.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A run of one stage, in seconds and bytes.
std::string File(double predicted, double measured, int64_t measured_activations) {
  return absl::StrCat(R"({"losses": [5.5, 4.5, 4.0], "plans": [{"plan": "clusters/c/plans/p",
    "gist": "1-2-1 x4", "first_step": 0, "step_count": 3,
    "predicted_step_seconds": )",
                      predicted, R"(, "measured_step_seconds": )", measured, R"(,
    "predicted_peak_memory_bytes": 2000, "measured_peak_memory_bytes": )",
                      1000 + measured_activations, R"(,
    "stages": [{"predicted_memory_bytes": {"parameters": 1000, "activations": 1000, "logits": 4},
                "measured_memory_bytes": {"parameters": 1000, "activations": )",
                      measured_activations, R"(, "transient": 2}}],
    "windows": [{"rank": 0}]}]})");
}

TEST(RunResults, ReadsWhatARunWrote) {
  ASSERT_OK_AND_ASSIGN(const std::vector<RunResult> runs,
                       ReadRunResults("some/where/tp.results.json", File(0.2, 0.21, 1100)));
  ASSERT_EQ(runs.size(), 1);
  const RunResult& run = runs[0];
  EXPECT_EQ(run.label, "tp");
  EXPECT_EQ(run.gist, "1-2-1 x4");
  EXPECT_EQ(run.step_count, 3);
  EXPECT_NEAR(run.StepError(), 0.05, 1e-12);
  EXPECT_NEAR(run.PeakError(), 0.05, 1e-12);
  EXPECT_EQ(run.first_loss, 5.5);
  EXPECT_EQ(run.last_loss, 4.0);
  // Everything that either side names, by name.
  ASSERT_EQ(run.items.size(), 4);
  EXPECT_EQ(run.items[0].name, "activations");
  EXPECT_EQ(run.items[0].measured_bytes, 1100);
  EXPECT_EQ(run.items[1].name, "logits");
  EXPECT_EQ(run.items[1].measured_bytes, 0);
  EXPECT_EQ(run.items[3].name, "transient");
  EXPECT_EQ(run.items[3].predicted_bytes, 0);
}

TEST(RunResults, SummarizesErrorsAndTheOrderOfRuns) {
  std::vector<RunResult> runs;
  // Errors +5 %, -10 %, +20 %: the first is predicted to be best, the second is.
  const std::vector<std::string> files = {File(0.200, 0.210, 1100), File(0.220, 0.198, 1000),
                                          File(0.250, 0.300, 950)};
  for (size_t i = 0; i < files.size(); ++i) {
    ASSERT_OK_AND_ASSIGN(const std::vector<RunResult> read,
                         ReadRunResults(absl::StrCat("run", i), files[i]));
    runs.insert(runs.end(), read.begin(), read.end());
  }
  const RunSummary summary = Summarize(runs);
  EXPECT_NEAR(summary.median_step_error, 0.10, 1e-12);
  EXPECT_NEAR(summary.worst_step_error, 0.20, 1e-12);
  EXPECT_NEAR(summary.worst_peak_error, 0.05, 1e-12);
  // Logits of 4 bytes that were not there are a fifth of a hundredth of the peak.
  EXPECT_NEAR(summary.worst_item_error, 0.20, 1e-12);
  EXPECT_EQ(summary.worst_item, "logits of stage 0, run0");
  // Places 1 2 3 and 2 1 3.
  ASSERT_TRUE(summary.rank_correlation.has_value());
  EXPECT_NEAR(*summary.rank_correlation, 0.5, 1e-12);
  EXPECT_NEAR(summary.regret, 0.210 / 0.198 - 1.0, 1e-12);

  EXPECT_THAT(RunsText(runs),
              AllOf(HasSubstr("step time: median error 10.0 %, worst 20.0 %"),
                    HasSubstr("predicted best: run0, measured 6.1 % behind the best"),
                    HasSubstr("rank correlation 0.500"), HasSubstr("5.500 -> 4.000")));
  const nlohmann::json json = nlohmann::json::parse(RunsJson(runs));
  EXPECT_EQ(json["runs"].size(), 3);
  EXPECT_NEAR(json["worstStepError"].get<double>(), 0.2, 1e-12);
}

TEST(RunResults, LeavesOutPlansThatMeasuredNothing) {
  nlohmann::json file = nlohmann::json::parse(File(0.2, 0.2, 1000));
  file["plans"].push_back(file["plans"][0]);
  file["plans"][0]["windows"] = nlohmann::json::array();
  file["plans"][0]["measured_step_seconds"] = 0.0;
  ASSERT_OK_AND_ASSIGN(const std::vector<RunResult> runs, ReadRunResults("a", file.dump()));
  ASSERT_EQ(runs.size(), 1);
  EXPECT_EQ(runs[0].label, "a/2");
}

// A file as above with what its machine did; `used` below 0 leaves it out.
std::vector<RunResult> OnMachine(const std::string& name, double used, bool is_busy) {
  nlohmann::json file = nlohmann::json::parse(File(0.2, 0.2, 1000));
  if (used >= 0.0) {
    file["plans"][0]["machine_used_by_others_ratio"] = used;
    file["plans"][0]["machine_is_busy"] = is_busy;
  }
  const absl::StatusOr<std::vector<RunResult>> runs = ReadRunResults(name, file.dump());
  EXPECT_OK(runs);
  return runs.value_or(std::vector<RunResult>(1));
}

TEST(RunResults, MarksRunsOfABusyMachine) {
  std::vector<RunResult> runs = OnMachine("calm", 0.012, false);
  EXPECT_EQ(runs[0].used_by_others, 0.012);
  EXPECT_THAT(RunsText(runs), AllOf(HasSubstr("others used at most 1.2 % of the ranks'"),
                                    Not(HasSubstr("busy machine"))));
  runs.push_back(OnMachine("loaded", 0.487, true)[0]);
  runs.push_back(OnMachine("old", -1.0, false)[0]);
  const std::string text = RunsText(runs);
  EXPECT_THAT(text, testing::ContainsRegex("loaded .* 48\\.7 % .*  busy machine\n"));
  EXPECT_THAT(text, testing::ContainsRegex("calm .* 1\\.2 %  5\\.500 -> 4\\.000\n"));
  EXPECT_THAT(text, HasSubstr("machine: BUSY, other programs used processors of the ranks of "
                              "loaded (48.7 %);"));
  EXPECT_THAT(text, HasSubstr("not known what others used during old ("));
  const nlohmann::json json = nlohmann::json::parse(RunsJson(runs));
  EXPECT_EQ(json["runs"][0]["machineUsedByOthersRatio"], 0.012);
  EXPECT_EQ(json["runs"][0]["isMachineBusy"], false);
  EXPECT_EQ(json["runs"][1]["isMachineBusy"], true);
  EXPECT_FALSE(json["runs"][2].contains("machineUsedByOthersRatio"));
}

TEST(RunResults, NamesWhatIsWrong) {
  const auto fault = [](const std::string& pointer, const nlohmann::json& value) {
    nlohmann::json file = nlohmann::json::parse(File(0.2, 0.2, 1000));
    file[nlohmann::json::json_pointer(pointer)] = value;
    return std::string(ReadRunResults("a.json", file.dump()).status().message());
  };
  EXPECT_THAT(ReadRunResults("a.json", "no JSON").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a.json:1: ")));
  EXPECT_THAT(ReadRunResults("a.json", "{}").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a.json: plans")));
  EXPECT_THAT(ReadRunResults("a.json", "{\"plans\": [], \"plans\": []}").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("plans")));
  EXPECT_THAT(fault("/plans/0/predicted_peak_memory_bytes", 1e30),
              HasSubstr("plans[0].predicted_peak_memory_bytes: must be a whole number from 0 to"));
  EXPECT_THAT(fault("/plans/0/step_count", -0.5),
              HasSubstr("plans[0].step_count: must be a whole number"));
  EXPECT_THAT(fault("/plans/0/step_count", 1.5),
              HasSubstr("plans[0].step_count: must be a whole number"));
  EXPECT_THAT(fault("/plans/0/stages/0/measured_memory_bytes/parameters", 0.25),
              HasSubstr("plans[0].stages[0].parameters: must be a whole number"));
  EXPECT_EQ(fault("/plans/0/predicted_peak_memory_bytes", 1.5e9), "");
  EXPECT_THAT(fault("/plans", 3), HasSubstr("plans"));
  EXPECT_THAT(fault("/losses/1", "low"), HasSubstr("losses"));
  EXPECT_THAT(fault("/plans/0", 3), HasSubstr("plans[0]"));
  EXPECT_THAT(fault("/plans/0/predicted_step_seconds", 0),
              HasSubstr("plans[0].predicted_step_seconds"));
  EXPECT_THAT(fault("/plans/0/measured_step_seconds", "fast"),
              HasSubstr("plans[0].measured_step_seconds"));
  EXPECT_THAT(fault("/plans/0/measured_peak_memory_bytes", -1),
              HasSubstr("plans[0].measured_peak_memory_bytes"));
  EXPECT_THAT(fault("/plans/0/machine_used_by_others_ratio", -0.5),
              HasSubstr("plans[0].machine_used_by_others_ratio"));
  EXPECT_THAT(fault("/plans/0/machine_is_busy", 1), HasSubstr("plans[0].machine_is_busy"));
  EXPECT_THAT(fault("/plans/0/stages", 1), HasSubstr("plans[0].stages"));
  EXPECT_THAT(fault("/plans/0/stages/0/measured_memory_bytes/parameters", "much"),
              HasSubstr("plans[0].stages[0]"));
}

}  // namespace
}  // namespace parplan::planctl
