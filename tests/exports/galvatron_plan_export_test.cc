#include "exports/galvatron_plan_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "clients/import/galvatron_plan.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/clients/import/galvatron_plan_cases.h"
#include "tests/clients/import/import_test_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(ExportGalvatronPlan, ReadsBackToAnEqualPlan) {
  const ModelSpec model = DecoderOf(4);
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport import,
                       ImportForDecoder(kTwoStagesPlan, 4, GalvatronPlanOptions()));
  ASSERT_OK_AND_ASSIGN(const std::string text, ExportGalvatronPlan(import.plan, model));
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport again,
                       ImportGalvatronPlan({"again.json", text}, model, {}));
  EXPECT_EQ(again.plan, import.plan);
  ASSERT_OK_AND_ASSIGN(const std::string same, ExportGalvatronPlan(again.plan, model));
  EXPECT_EQ(same, text);
}

TEST(ExportGalvatronPlan, ReadsBackUlyssesAndRings) {
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport import, ImportForDecoder(kUlyssesAndRingsPlan, 2));
  ASSERT_OK_AND_ASSIGN(const std::string text, ExportGalvatronPlan(import.plan, DecoderOf(2)));
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport again, ImportForDecoder(text, 2));
  EXPECT_EQ(again.plan, import.plan);
}

// Release 2.4.0 passes over the degrees of rings, so its users must be told.
TEST(GalvatronReadme, NamesTheOneReleaseThatHasRings) {
  ASSERT_OK_AND_ASSIGN(GalvatronPlanImport import, ImportForDecoder(kUlyssesAndRingsPlan, 2));
  const ExportFacts facts{*FindRuntime("parplan"), ""};
  EXPECT_THAT(GalvatronReadme(import.plan, facts),
              AllOf(HasSubstr("for Galvatron (its repository of 2026-06-16)"),
                    HasSubstr("Release 2.4.0 has no ring attention")));
  ASSERT_OK_AND_ASSIGN(import, ImportForDecoder(kTwoStagesPlan, 4, GalvatronPlanOptions()));
  EXPECT_THAT(GalvatronReadme(import.plan, facts),
              AllOf(HasSubstr("for Galvatron (2.4)"), Not(HasSubstr("ring attention"))));
}

// The runtime of 2026 reads vocab_sdp, version 2.4.0 embed_sdp; neither reads the other's key.
TEST(ExportGalvatronPlan, NamesTheShardingOfTheEndsForBothReleases) {
  for (const ShardingLevel level : {ShardingLevel::kParameters, ShardingLevel::kGradients}) {
    ASSERT_OK_AND_ASSIGN(GalvatronPlanImport import,
                         ImportForDecoder(kTwoStagesPlan, 4, GalvatronPlanOptions()));
    import.plan.stages.front().layer_runs.front().strategy.sharding_level = level;
    import.plan.stages.back().layer_runs.back().strategy.sharding_level = level;
    ASSERT_OK_AND_ASSIGN(const std::string text, ExportGalvatronPlan(import.plan, DecoderOf(4)));
    const nlohmann::json file = nlohmann::json::parse(text);
    EXPECT_EQ(file["embed_sdp"], level == ShardingLevel::kParameters ? 1 : 0);
    EXPECT_EQ(file["vocab_sdp"], file["embed_sdp"]);
    EXPECT_FALSE(file.contains("ep_sizes_enc"));
  }
}

// Absent keys stand for 1 and 1 in the runtime of 2026, so layers with tensor parallelism would get
// whole experts.
TEST(ExportGalvatronPlan, NamesTheDegreesOfExperts) {
  const ModelSpec model = DecoderModel({.dense_layer_count = 1, .expert_layer_count = 3});
  UniformPlan facts;
  facts.device_count = 8;
  facts.global_batch_size = 16;
  facts.micro_batch_count = 4;
  facts.stage_layer_counts = {6};
  facts.strategy = {.tensor_parallel_degree = 2,
                    .data_parallel_degree = 4,
                    .sharding_level = ShardingLevel::kParameters,
                    .sequence_parallel = true};
  const Plan plan = PlanOf(facts, model);
  ASSERT_OK_AND_ASSIGN(const std::string text, ExportGalvatronPlan(plan, model));
  const nlohmann::json file = nlohmann::json::parse(text);
  EXPECT_EQ(file["ep_sizes_enc"], "1,1,1,1");
  EXPECT_EQ(file["tp_of_ep_sizes_enc"], "2,2,2,2");
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport again,
                       ImportGalvatronPlan({"again.json", text}, model, {}));
  EXPECT_EQ(again.plan, plan);
  EXPECT_THAT(again.notes, IsEmpty());
  // The first layer is dense, so that its degree says nothing; the others have experts.
  nlohmann::json changed = file;
  changed["tp_of_ep_sizes_enc"] = "1,2,2,2";
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport dense,
                       ImportGalvatronPlan({"again.json", changed.dump()}, model, {}));
  EXPECT_EQ(dense.plan, plan);
  changed["tp_of_ep_sizes_enc"] = "2,2,1,2";
  EXPECT_THAT(ImportGalvatronPlan({"again.json", changed.dump()}, model, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("again.json: tp_of_ep_sizes_enc[2]: divides experts over 1 ranks, "
                                 "where tensor parallelism divides the rest of the layer over 2")));
  changed.erase("tp_of_ep_sizes_enc");
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport unsaid,
                       ImportGalvatronPlan({"again.json", changed.dump()}, model, {}));
  EXPECT_EQ(unsaid.plan, plan);
  EXPECT_THAT(unsaid.notes, ElementsAre(HasSubstr("tp_of_ep_sizes_enc is missing")));
}

TEST(ExportGalvatronPlan, RefusesWhatTheFormatCannotHold) {
  const ModelSpec model = DecoderOf(4);
  const auto refuse = [&model](auto&& change, const std::string& part) {
    Plan plan = ImportForDecoder(kTwoStagesPlan, 4, GalvatronPlanOptions())->plan;
    change(plan);
    EXPECT_THAT(ExportGalvatronPlan(plan, model).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
  refuse([](Plan& plan) { plan.schedule = Schedule::kInterleaved; }, "schedule: is interleaved");
  refuse([](Plan& plan) { plan.virtual_stage_count = 2; }, "virtual_stage_count: gives each");
  refuse([](Plan& plan) { plan.stages[1].layer_runs[0].strategy.expert_parallel_degree = 2; },
         "layer_runs[0].strategy.expert_parallel_degree: spreads experts");
  refuse([](Plan& plan) { plan.stages[1].rank_count = 2; }, "from stage to stage");
  refuse(
      [](Plan& plan) {
        plan.stages[0].layer_runs[2].strategy.sharding_level = ShardingLevel::kOptimizer;
      },
      "optimizer state alone");
  refuse(
      [](Plan& plan) {
        plan.stages[0].layer_runs[2].strategy.sharding_level = ShardingLevel::kNone;
      },
      "that shard nothing");
  refuse(
      [](Plan& plan) {
        plan.stages[0].layer_runs[0].strategy.recompute_level = RecomputeLevel::kFull;
      },
      "recomputes the embedding");
  refuse([](Plan& plan) { plan.stages[1].layer_runs[1].strategy.tensor_parallel_degree = 4; },
         "different strategies");
  refuse([](Plan& plan) { plan.stages[0].layer_runs[1].strategy.sequence_parallel = false; },
         "differs from layer to layer");
  refuse([](Plan& plan) { plan.stages.pop_back(); }, "every layer");
}

// Reading, writing and reading again gives the same plan, for every published plan.
TEST(ExportGalvatronPlan, EveryPublishedPlanSurvivesTheRoundTrip) {
  const std::optional<std::string> data = SharedDataDir();
  if (!data) GTEST_SKIP() << kNoSharedData;
  const std::string folder = *data + "/galvatron_profiles";
  int round_trips = 0;
  int refused = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().filename().string().rfind("galvatron_config", 0) != 0) continue;
    const std::string path = entry.path().lexically_relative(folder).string();
    SCOPED_TRACE(path);
    const NamedText file = ReadNamedText(folder, path);
    const nlohmann::json object = nlohmann::json::parse(file.text);
    const std::string degrees = object["tp_sizes_enc"].get<std::string>();
    const int layer_count = static_cast<int>(std::count(degrees.begin(), degrees.end(), ',')) + 1;
    const ModelSpec model = DecoderOf(layer_count);
    absl::StatusOr<GalvatronPlanImport> import = ImportGalvatronPlan(file, model, {});
    if (!import.ok()) {
      // Unequal micro-batches, nothing else.
      ++refused;
      EXPECT_THAT(import.status().ToString(), HasSubstr("chunks: is"));
      GalvatronPlanOptions options;
      options.micro_batch_count = 1;
      import = ImportGalvatronPlan(file, model, options);
    }
    ASSERT_OK(import);
    const bool sequence_parallel = object.contains("use_sp");
    ASSERT_OK_AND_ASSIGN(const std::string text, ExportGalvatronPlan(import->plan, model));
    GalvatronPlanOptions options;
    options.sequence_parallel = sequence_parallel;
    ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport again,
                         ImportGalvatronPlan({"again.json", text}, model, options));
    EXPECT_EQ(again.plan, import->plan);
    ++round_trips;
  }
  EXPECT_EQ(round_trips, 30);
  EXPECT_EQ(refused, 3);
}

}  // namespace
}  // namespace parplan
