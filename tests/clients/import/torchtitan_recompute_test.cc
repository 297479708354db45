// Recomputation in files of torchtitan: its modes, layer by layer, and what the export writes of
// it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "exports/torchtitan_plan_export.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/search_space.h"
#include "tests/clients/import/torchtitan_files.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Between TOML and release 0.3.0 a class had the mode as an argument.
TEST(TorchtitanRecomputation, ReadsModesOfRecomputationInPython) {
  const auto level = [](const std::string& arguments) {
    const std::string choice = absl::StrCat("ActivationCheckpointConfig(", arguments, ")");
    const absl::StatusOr<TorchtitanPlanImport> import = ReadTorchtitan(
        "run.py", absl::StrReplaceAll(kTorchtitanPython, {{"FullAC.Config()", choice}}));
    EXPECT_OK(import.status());
    return import.ok() ? import->plan.stages[0].layer_runs[1].strategy.recompute_level
                       : RecomputeLevel::kNone;
  };
  EXPECT_EQ(level("mode=\"full\""), RecomputeLevel::kFull);
  EXPECT_EQ(level("mode=\"none\""), RecomputeLevel::kNone);
  EXPECT_EQ(level("mode=\"selective\", selective_ac_option=\"op\""), RecomputeLevel::kSelective);
  for (const char* const arguments :
       {"**options", "selective_ac_option=option", "mode=mode", "mode=\"memory_budget\""}) {
    const std::string choice = absl::StrCat("ActivationCheckpointConfig(", arguments, ")");
    EXPECT_THAT(ReadTorchtitan("run.py", absl::StrReplaceAll(kTorchtitanPython,
                                                             {{"FullAC.Config()", choice}})),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run.py: line ")))
        << arguments;
  }
}

TEST(TorchtitanRecomputation, RecomputesEveryNthLayerInTheSelectiveModeAlone) {
  const auto read = [](const std::string& mode, const std::string& option = "\"2\"") {
    return ReadTorchtitan(
        "run.toml", absl::StrCat("[training]\nseq_len = 1024\n[activation_checkpoint]\n", mode,
                                 "selective_ac_option = ", option, "\n"));
  };
  EXPECT_THAT(RecomputedLayers(read("mode = \"none\"\n")->plan), IsEmpty());
  EXPECT_EQ(RecomputedLayers(read("mode = \"full\"\n")->plan).size(), 10);
  for (const char* const mode : {"", "mode = \"selective\"\n"}) {
    EXPECT_THAT(RecomputedLayers(read(mode)->plan), ElementsAre(2, 4, 6, 8, 10)) << mode;
    EXPECT_THAT(RecomputedLayers(read(mode, "\"3\"")->plan), ElementsAre(3, 6, 9)) << mode;
    EXPECT_EQ(read(mode, "\"1\"")->plan, read("mode = \"full\"\n")->plan) << mode;
    for (const char* const option : {"\"0\"", "\"two\"", "2", "true", "\"-2\""}) {
      EXPECT_THAT(read(mode, option),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           AllOf(HasSubstr("line "), HasSubstr("the text op or a number"))))
          << option;
    }
  }
}

// The program counts the layers of a rank, through its stages: here rank 0 has layers 1 to 3 and 6
// to 8 of the ten, so that layers 2, 6 and 8 are its second, fourth and sixth.
TEST(TorchtitanRecomputation, CountsTheLayersOfEachRank) {
  ASSERT_OK_AND_ASSIGN(
      const TorchtitanPlanImport import,
      ReadTorchtitan(
          "run.toml",
          "[training]\nseq_len = 1024\n[parallelism]\npipeline_parallel_degree = 2\n"
          "pipeline_parallel_schedule = \"Interleaved1F1B\"\nmodule_fqns_per_model_part = [\n"
          "[\"tok_embeddings\", \"layers.0\", \"layers.1\", \"layers.2\"],\n"
          "[\"layers.3\", \"layers.4\"],\n"
          "[\"layers.5\", \"layers.6\", \"layers.7\"],\n"
          "[\"layers.8\", \"layers.9\", \"norm\", \"lm_head\"]]\n"));
  EXPECT_THAT(RecomputedLayers(import.plan), ElementsAre(2, 5, 6, 8, 10));
}

// A plan of each policy of 0.3.0 is written for the runtime of the target and read again.
TEST(TorchtitanRecomputation, ReadsWhatTheExportOfItsPlansWrites) {
  const ModelSpec model = TorchtitanModel();
  for (const char* const policy : {"None", "FullAC.Config()", "SelectiveAC.Config()"}) {
    ASSERT_OK_AND_ASSIGN(
        const TorchtitanPlanImport import,
        ReadTorchtitan("run.py",
                       absl::StrReplaceAll(kTorchtitanPython, {{"FullAC.Config()", policy}})));
    ASSERT_OK_AND_ASSIGN(
        const std::vector<ExportedFile> files,
        ExportTorchtitanPlan(import.plan, model,
                             {*FindRuntime(LimitsOf(Target::kTorchtitan).runtime_id), ""}));
    ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport again,
                         ReadTorchtitan("again.py", files[0].text));
    EXPECT_EQ(again.plan, import.plan) << policy;
  }
  // A policy that 0.3.0 does not have is refused.
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport earlier,
                       ReadTorchtitan("run.toml", "[training]\nseq_len = 1024\n"));
  EXPECT_THAT(
      ExportTorchtitanPlan(earlier.plan, model, {*FindRuntime("torchtitan"), ""}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not recompute layer 1")));
}

}  // namespace
}  // namespace parplan
