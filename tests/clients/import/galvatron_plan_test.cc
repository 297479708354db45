#include "clients/import/galvatron_plan.h"
#include "clients/export/galvatron_plan_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "clients/import/hugging_face.h"
#include "proto/wire/model_wire.h"
#include "tests/clients/import/import_test_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A decoder of `layer_count` layers between embedding and head.
ModelSpec Decoder(int layer_count) {
  ModelFlags flags;
  flags.layer_counts = {layer_count};
  const absl::StatusOr<HuggingFaceImport> import = ImportHuggingFace(
      {"config.json", R"({"model_type": "gpt2", "n_embd": 64, "n_head": 8, "n_layer": 1,
                          "n_positions": 16, "vocab_size": 100})"},
      flags);
  EXPECT_OK(import);
  absl::StatusOr<ModelSpec> model = ModelFromProto(import->model);
  EXPECT_OK(model);
  return *std::move(model);
}

absl::StatusOr<GalvatronPlanImport> Import(const std::string& text, int layer_count,
                                           GalvatronPlanOptions options = {.device_count = 8}) {
  return ImportGalvatronPlan({"plan.json", text}, Decoder(layer_count), options);
}

constexpr char kTwoStages[] = R"({
    "pp_deg": 2, "tp_sizes_enc": "2,2,1,4", "tp_consecutive_flags": "1,0,1,1",
    "dp_types_enc": "1,0,0,0", "use_sp": "0,0,0,0", "checkpoint": "1,0,0,0", "global_bsz": 16,
    "chunks": 4, "pp_division": "3,1", "pipeline_type": "gpipe", "default_dp_type": "zero2",
    "vtp": 2, "vsp": 0, "embed_sdp": 1, "world_size": 8})";

TEST(ImportGalvatronPlan, ReadsEveryKey) {
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport import,
                       Import(kTwoStages, 4, GalvatronPlanOptions()));
  const Plan& plan = import.plan;
  EXPECT_EQ(plan.device_count, 8);
  EXPECT_EQ(plan.global_batch_size, 16);
  EXPECT_EQ(plan.micro_batch_count, 4);
  EXPECT_EQ(plan.schedule, Schedule::kGpipe);
  const Strategy ends{
      2, 2, RankOrder::kTensorInnermost, ShardingLevel::kParameters, RecomputeLevel::kNone, true};
  const Strategy first{
      2, 2, RankOrder::kTensorInnermost, ShardingLevel::kParameters, RecomputeLevel::kFull, true};
  const Strategy second{
      2, 2, RankOrder::kDataInnermost, ShardingLevel::kGradients, RecomputeLevel::kNone, true};
  const Strategy third{
      1, 4, RankOrder::kTensorInnermost, ShardingLevel::kGradients, RecomputeLevel::kNone, false};
  const Strategy fourth{
      4, 1, RankOrder::kTensorInnermost, ShardingLevel::kNone, RecomputeLevel::kNone, true};
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_THAT(plan.stages[0].layer_runs,
              ElementsAre(StageLayerRun{0, 1, ends}, StageLayerRun{1, 1, first},
                          StageLayerRun{2, 1, second}, StageLayerRun{3, 1, third}));
  EXPECT_EQ(plan.stages[1].first_rank, 4);
  EXPECT_THAT(plan.stages[1].layer_runs,
              ElementsAre(StageLayerRun{4, 1, fourth}, StageLayerRun{5, 1, ends}));
}

TEST(ImportGalvatronPlan, OldFilesMeanWhatTheirReleaseMeant) {
  // 2022: no division (even, the rest last), no recomputation, plain DP.
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport import,
                       Import(R"({"pp_deg": 2, "tp_sizes_enc": "1,1,2", "dp_types_enc": "1,0,0",
                                  "tp_consecutive_flags": "1,1,1", "global_bsz": 8,
                                  "chunks": 2})",
                              3));
  ASSERT_EQ(import.plan.stages.size(), 2u);
  EXPECT_EQ(import.plan.stages[0].layer_count(), 2);
  EXPECT_EQ(import.plan.stages[1].layer_count(), 3);
  const Strategy& last = import.plan.stages[1].layer_runs[1].strategy;
  EXPECT_EQ(last.tensor_parallel_degree, 2);
  EXPECT_EQ(last.sharding_level, ShardingLevel::kNone);
  EXPECT_FALSE(last.sequence_parallel);
  EXPECT_EQ(import.plan.schedule, Schedule::kOneForwardOneBackward);
}

TEST(ImportGalvatronPlan, ErrorsNameFileAndField) {
  const auto refuse = [](const std::string& text, const std::string& part) {
    EXPECT_THAT(Import(text, 2).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("plan.json: "), HasSubstr(part))));
  };
  const std::string rest = R"("dp_types_enc": "0,0", "global_bsz": 8, "chunks": 2)";
  refuse("{}", "pp_deg: is missing");
  refuse(R"({"pp_deg": 3, "tp_sizes_enc": "1,1", )" + rest + "}", "does not divide 8 devices");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1", )" + rest + "}", "must have 2 entries");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,3", )" + rest + "}", "tp_sizes_enc[1]: is 3");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,x", )" + rest + "}", "whole numbers");
  refuse(R"({"pp_deg": 2, "tp_sizes_enc": "1,1", "pp_division": "2,2", )" + rest + "}",
         "must add up to the 2");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,1", "cp_sizes_enc": "3,1", )" + rest + "}",
         "beside context degree 3");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "2,1", "use_sp": "1,0", "cp_sizes_enc": "2,1", )" + rest +
             "}",
         "Ulysses beside context parallelism");
  refuse(
      R"({"pp_deg": 1, "tp_sizes_enc": "2,1", "use_sp": "1,0", "tp_consecutive_flags": "0,1", )" +
          rest + "}",
      "Ulysses over strided devices");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,1", "pipeline_type": 7, )" + rest + "}",
         "pipeline_type");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,1", "dp_types_enc": "0,0", "global_bsz": 128,
             "chunks": 3})",
         "which does not divide global_bsz 128");
  EXPECT_THAT(Import(R"({"pp_deg": 1})", 2, GalvatronPlanOptions()).status().ToString(),
              HasSubstr("world_size: is missing"));
}

constexpr char kUlyssesBeside[] = R"({"pp_deg": 1, "tp_sizes_enc": "4,2", "use_sp": "1,0",
    "dp_types_enc": "1,1", "global_bsz": 8, "chunks": 1, "default_dp_type": "zero2", "vtp": 8,
    "vsp": 1, "cp_sizes_enc": "1,2"})";

TEST(ImportGalvatronPlan, UlyssesAndRingsAreContextParallelism) {
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport import, Import(kUlyssesBeside, 2));
  Strategy ends;
  ends.context_parallel_degree = 8;
  ends.context_kind = ContextKind::kUlysses;
  Strategy ulysses = ends;
  ulysses.context_parallel_degree = 4;
  ulysses.data_parallel_degree = 2;
  ulysses.sharding_level = ShardingLevel::kParameters;
  Strategy ring;
  ring.tensor_parallel_degree = 2;
  ring.context_parallel_degree = 2;
  ring.data_parallel_degree = 2;
  ring.sharding_level = ShardingLevel::kParameters;
  ring.sequence_parallel = true;
  EXPECT_THAT(import.plan.stages[0].layer_runs,
              ElementsAre(StageLayerRun{0, 1, ends}, StageLayerRun{1, 1, ulysses},
                          StageLayerRun{2, 1, ring}, StageLayerRun{3, 1, ends}));
  const ModelSpec model = Decoder(2);
  ASSERT_OK_AND_ASSIGN(const std::string text, ExportGalvatronPlan(import.plan, model));
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport again, Import(text, 2));
  EXPECT_EQ(again.plan, import.plan);
}

TEST(ImportGalvatronPlan, UlyssesMayBeTakenAsDataParallelism) {
  const std::string text = R"({"pp_deg": 1, "tp_sizes_enc": "4,1", "use_sp": "1,0",
      "dp_types_enc": "1,1", "global_bsz": 8, "chunks": 1, "default_dp_type": "zero2"})";
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport import,
                       Import(text, 2, {.device_count = 8, .ulysses_as_data_parallel = true}));
  const Strategy& strategy = import.plan.stages[0].layer_runs[1].strategy;
  EXPECT_EQ(strategy.tensor_parallel_degree, 1);
  EXPECT_EQ(strategy.data_parallel_degree, 8);
  EXPECT_EQ(strategy.sharding_level, ShardingLevel::kParameters);
  EXPECT_THAT(import.notes, Contains(HasSubstr("Ulysses")));
}

TEST(ExportGalvatronPlan, ReadsBackToAnEqualPlan) {
  const ModelSpec model = Decoder(4);
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport import,
                       Import(kTwoStages, 4, GalvatronPlanOptions()));
  ASSERT_OK_AND_ASSIGN(const std::string text, ExportGalvatronPlan(import.plan, model));
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport again,
                       ImportGalvatronPlan({"again.json", text}, model, {}));
  EXPECT_EQ(again.plan, import.plan);
  ASSERT_OK_AND_ASSIGN(const std::string same, ExportGalvatronPlan(again.plan, model));
  EXPECT_EQ(same, text);
}

TEST(ExportGalvatronPlan, RefusesWhatTheFormatCannotHold) {
  const ModelSpec model = Decoder(4);
  const auto refuse = [&model](auto&& change, const std::string& part) {
    Plan plan = Import(kTwoStages, 4, GalvatronPlanOptions())->plan;
    change(plan);
    EXPECT_THAT(ExportGalvatronPlan(plan, model).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
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

// Law over every plan published: reading, writing and reading gives the same.
TEST(GalvatronPlanSweep, EveryPublishedPlanSurvivesTheRoundTrip) {
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
    const ModelSpec model = Decoder(layer_count);
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
