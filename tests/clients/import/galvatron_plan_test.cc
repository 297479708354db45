#include "clients/import/galvatron_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/clients/import/galvatron_plan_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ImportGalvatronPlan, ReadsTheKeysOfBothReleases) {
  const auto read = [](const std::string& keys) {
    std::string text = kTwoStagesPlan;
    const std::string old = "\"embed_sdp\": 1";
    text.replace(text.find(old), old.size(), keys);
    return ImportForDecoder(text, 4, GalvatronPlanOptions());
  };
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport before, read("\"embed_sdp\": 1"));
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport now, read("\"vocab_sdp\": 1"));
  EXPECT_EQ(now.plan, before.plan);
  EXPECT_THAT(read("\"vocab_sdp\": 0, \"embed_sdp\": 1").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("contradicts embed_sdp")));
  EXPECT_THAT(read("\"ep_sizes_enc\": \"1,1,2,1\"").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("spreads the experts of layer 2 over 2 ranks")));
  EXPECT_THAT(read("\"tp_of_ep_sizes_enc\": \"1,1\"").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must have 4 entries")));
}

TEST(ImportGalvatronPlan, ReadsEveryKey) {
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport import,
                       ImportForDecoder(kTwoStagesPlan, 4, GalvatronPlanOptions()));
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
  ASSERT_OK_AND_ASSIGN(
      const GalvatronPlanImport import,
      ImportForDecoder(R"({"pp_deg": 2, "tp_sizes_enc": "1,1,2", "dp_types_enc": "1,0,0",
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
    EXPECT_THAT(ImportForDecoder(text, 2).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("plan.json: "), HasSubstr(part))));
  };
  const std::string rest = R"("dp_types_enc": "0,0", "global_bsz": 8, "chunks": 2)";
  refuse("{}", "pp_deg: is missing");
  refuse(R"({"pp_deg": 3, "tp_sizes_enc": "1,1", )" + rest + "}", "does not divide 8 devices");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1", )" + rest + "}", "must have 2 entries");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,3", )" + rest + "}", "tp_sizes_enc[1]: is 3");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,x", )" + rest + "}", "tp_sizes_enc[1]: is `x`");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": [1, 1.5], )" + rest + "}", "tp_sizes_enc[1]: ");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,1", "checkpoint": "0,2", )" + rest + "}",
         "checkpoint[1]: is 2; must be from 0 to 1");
  refuse(R"({"pp_deg": 2, "tp_sizes_enc": "1,1", "pp_division": "2,2", )" + rest + "}",
         "must add up to the 2");
  refuse(R"({"pp_deg": 2, "tp_sizes_enc": "1,1", "pp_division": "1,1,0", )" + rest + "}",
         "pp_division: must have 2 entries, one for each stage; it has 3");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,1", "cp_sizes_enc": "3,1", )" + rest + "}",
         "cp_sizes_enc[0]: is 3, which does not divide the 8 devices");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,2", "cp_sizes_enc": "1,8", )" + rest + "}",
         "cp_sizes_enc[1]: is 8, which does not divide the 4 devices that tp_sizes_enc[1] 2");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,1", "vcp": 16, )" + rest + "}",
         "vcp: is 16, which does not divide the 8 devices");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "2,1", "use_sp": "1,0", "cp_sizes_enc": "2,1", )" + rest +
             "}",
         "use_sp[0]: is Ulysses beside context parallelism");
  refuse(
      R"({"pp_deg": 1, "tp_sizes_enc": "2,1", "use_sp": "1,0", "tp_consecutive_flags": "0,1", )" +
          rest + "}",
      "use_sp[0]: is Ulysses over strided devices");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,1", "pipeline_type": 7, )" + rest + "}",
         "pipeline_type");
  refuse(R"({"pp_deg": 1, "tp_sizes_enc": "1,1", "dp_types_enc": "0,0", "global_bsz": 128,
             "chunks": 3})",
         "chunks: is 3, which does not divide global_bsz 128");
  EXPECT_THAT(ImportForDecoder(R"({"pp_deg": 1, "tp_sizes_enc": "1,1", "dp_types_enc": "0,0",
                                   "global_bsz": 128, "chunks": 4})",
                               2, {.device_count = 8, .micro_batch_count = 5})
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--galvatron-micro-batches: is 5, which does not divide")));
  EXPECT_THAT(ImportForDecoder(R"({"pp_deg": 1})", 2, GalvatronPlanOptions()).status().ToString(),
              HasSubstr("world_size: is missing"));
}

TEST(ImportGalvatronPlan, UlyssesAndRingsAreContextParallelism) {
  ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport import, ImportForDecoder(kUlyssesAndRingsPlan, 2));
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
}

TEST(ImportGalvatronPlan, UlyssesMayBeTakenAsDataParallelism) {
  const std::string text = R"({"pp_deg": 1, "tp_sizes_enc": "4,1", "use_sp": "1,0",
      "dp_types_enc": "1,1", "global_bsz": 8, "chunks": 1, "default_dp_type": "zero2"})";
  ASSERT_OK_AND_ASSIGN(
      const GalvatronPlanImport import,
      ImportForDecoder(text, 2, {.device_count = 8, .ulysses_as_data_parallel = true}));
  const Strategy& strategy = import.plan.stages[0].layer_runs[1].strategy;
  EXPECT_EQ(strategy.tensor_parallel_degree, 1);
  EXPECT_EQ(strategy.data_parallel_degree, 8);
  EXPECT_EQ(strategy.sharding_level, ShardingLevel::kParameters);
  EXPECT_THAT(import.notes, Contains(HasSubstr("Ulysses")));
}

}  // namespace
}  // namespace parplan
