#include "clients/calibrate/published_measured_runs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/calibrate/published_run.h"

namespace parplan::planctl {
namespace {

// A row of one job.
std::string Row(const std::string& id, const std::string& source, const std::string& measured) {
  return absl::StrCat(R"({"id": ")", id, R"(", "source": ")", source, R"(",
      "model": {"arch": "gpt", "hidden": 8192, "layers": 4, "heads": 64, "ffn": 32768,
                "seq": 2048, "vocab": 51200},
      "hardware": {"gpu": "A100-SXM-80GB", "mem_gb": 80, "gpus_per_node": 8, "n_gpus": 8},
      "parallel": {"tp": 4, "pp": 1, "dp": 2, "vpp": 1, "zero": 0, "sp": false},
      "batch": {"mbs": 2, "gbs": 16}, "measured": )",
                      measured, R"(, "recompute": "full", "precision": "fp16",
      "framework": "Megatron-DeepSpeed"})");
}

accuracy::PublishedRuns Published() {
  const std::string text = absl::StrCat(
      R"({"schema": "published_runs/1", "runs": [)",
      Row("a", "times", R"({"iter_time_s": 1.5, "peak_mem_bytes": 20000000000})"), ",",
      Row("b", "memories", R"({"iter_time_s": 1.5, "peak_mem_bytes": 20000000000})"), ",",
      Row("c", "times", R"({"peak_mem_bytes": 20000000000})"), ",",
      Row("d", "other", R"({"iter_time_s": 1.5, "peak_mem_bytes": 20000000000})"), "]}");
  absl::StatusOr<accuracy::PublishedRuns> runs = accuracy::ReadPublishedRuns({"runs.json", text});
  EXPECT_TRUE(runs.ok()) << runs.status();
  EXPECT_TRUE(runs->skipped.empty());
  return *std::move(runs);
}

TEST(PublishedMeasuredRuns, SeesOnlyWhatTheSlicesHold) {
  std::vector<std::string> skipped;
  const std::vector<MeasuredRun> runs =
      MeasuredRunsOf(Published(), *RunSlice::Parse("times: all", "t"),
                     *RunSlice::Parse("memories: all", "m"), skipped);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].id, "a");
  EXPECT_TRUE(runs[0].step.has_value());
  EXPECT_FALSE(runs[0].memory.has_value());
  EXPECT_EQ(runs[1].id, "b");
  EXPECT_FALSE(runs[1].step.has_value());
  EXPECT_EQ(runs[1].memory, Bytes::Of(20'000'000'000));
  EXPECT_TRUE(skipped.empty());
}

TEST(PublishedMeasuredRuns, ArePredictedUnderTheCalibrationGiven) {
  std::vector<std::string> skipped;
  const std::vector<MeasuredRun> runs = MeasuredRunsOf(
      Published(), *RunSlice::Parse("times: all", "t"), *RunSlice::Parse("none", "m"), skipped);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].place, (FitPlace{"ampere", ""}));
  Calibration::Content content;
  content.provenance.agent = "test";
  content.coefficient_values = {{Coefficient::kMatrixEfficiency, {"ampere", "", {}}, 0.35}};
  const absl::StatusOr<RunPrediction> prior = runs[0].predict(*Calibration::BuiltIn());
  const absl::StatusOr<RunPrediction> slow = runs[0].predict(*Calibration::Create(content));
  ASSERT_TRUE(prior.ok()) << prior.status();
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_GT(*slow->step, *prior->step * 1.2);
  EXPECT_EQ(slow->memory, prior->memory);
  EXPECT_EQ(prior->confidence, Confidence::kEstimated);
  EXPECT_EQ(prior->tensor_parallel_reach, TensorParallelReach::kWithinNode);
}

}  // namespace
}  // namespace parplan::planctl
