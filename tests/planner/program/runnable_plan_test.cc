#include "planner/program/runnable_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "planner/program/rank_program.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

class RefusedPlan : public testing::Test {
 protected:
  void Refuses(const Plan& plan, const std::string& why, int rank = 0) {
    EXPECT_THAT(RankProgram::Create(plan, model, rank).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  }
  const ModelSpec model = SmallGpt(4);
  const Strategy data{.data_parallel_degree = 2};
  const Plan good = PlanOf(model, 4, {3, 3}, {data}, 8, 2);
};

TEST_F(RefusedPlan, IsRefusedWholeWithItsReason) {
  ASSERT_OK(RankProgram::Create(good, model, 0).status());
  Refuses(good, "ranks 0 to 3, not 4", 4);
  Refuses(good, "not -1", -1);
  Plan plan = good;
  plan.stages.pop_back();
  Refuses(plan, "on ranks 0 to 3");
  plan = good;
  plan.stages[1].layer_runs.pop_back();
  Refuses(plan, "they end at layer 5 of 6");
  plan = good;
  plan.stages[1].layer_runs[0].first_layer_index = 2;
  Refuses(plan, "cover the layers of the model in order, each once");
  plan = good;
  plan.stages[0].layer_runs[1].strategy.data_parallel_degree = 4;
  Refuses(plan, "layer 1: its degrees make 2 ranks");
  plan = good;
  plan.micro_batch_count = 8;
  Refuses(plan, "1 samples cannot be shared by 2 ranks");
  plan = good;
  plan.micro_batch_count = 3;
  Refuses(plan, "micro_batch_count");
  plan = good;
  plan.stages[0].layer_runs[1].strategy.expert_parallel_degree = 2;
  Refuses(plan, "no experts");
  plan = good;
  plan.stages[0].layer_runs[0].strategy.recompute_level = RecomputeLevel::kFull;
  Refuses(plan, "layer 0: only transformer layers recompute");
  plan.stages[0].layer_runs[0].strategy.set_recomputation(Recomputation(
      *RecomputeModules::Create({RecomputeModule::kFeedForward}, "recompute_modules")));
  Refuses(plan, "layer 0: the executor recomputes whole layers or attention alone, no modules");
  Plan hybrid = PlanOf(model, 4, {6}, {Strategy{.data_parallel_degree = 4}}, 8, 2);
  ASSERT_OK(RankProgram::Create(hybrid, model, 0).status());
  for (StageLayerRun& run : hybrid.stages[0].layer_runs) {
    run.strategy.set_sharding({ShardingLevel::kParameters, 2});
  }
  Refuses(hybrid, "layer 0: groups of 2 of its 4 ranks with the same parameters share its states");
  plan = good;
  plan.virtual_stage_count = 2;
  Refuses(plan, "interleaved");
  plan.schedule = Schedule::kInterleaved;
  Refuses(plan, "virtual_stage_count: must be 1 in a pipeline of one device");
  Refuses(PlanOf(model, 6, {3, 0, 3}, {data}, 8, 2),
          "stages[1]: it has no layer, and the executor");
}

TEST_F(RefusedPlan, FrozenWeights) {
  std::vector<LayerDefinition> layers = model.layer_definitions();
  layers[1].frozen = true;
  ASSERT_OK_AND_ASSIGN(const ModelSpec frozen,
                       ModelSpec::Create("frozen", layers, {{0, 1}, {1, 4}, {2, 1}},
                                         Precision::kFp32, Optimizer::kAdam));
  EXPECT_THAT(RankProgram::Create(good, frozen, 0).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("layer 1: the executor trains all weights, and its are frozen")));
}

TEST_F(RefusedPlan, TablesOfEmbeddingAndHeadSpreadInTwoWays) {
  const ModelSpec tied = SmallGpt(4, /*is_tied=*/true);
  const auto refuses = [&](const Plan& plan, const std::string& why) {
    EXPECT_THAT(RankProgram::Create(plan, tied, 0).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  ASSERT_OK(RankProgram::Create(good, tied, 0).status());
  Plan plan = good;
  plan.stages[1].layer_runs.back().strategy = {.tensor_parallel_degree = 2};
  refuses(plan, "spread as the embedding is");
  plan = good;
  plan.stages[0].layer_runs.front().strategy.sharding_level = ShardingLevel::kOptimizer;
  refuses(plan, "spread as the embedding is");
  plan.stages[1].layer_runs.back().strategy.sharding_level = ShardingLevel::kOptimizer;
  refuses(plan, "are not sharded");
  EXPECT_OK(RankProgram::Create(plan, model, 0).status());
  Plan one_stage = PlanOf(tied, 2, {6}, {data}, 8, 2);
  one_stage.stages[0].layer_runs.front().strategy.sharding_level = ShardingLevel::kParameters;
  refuses(one_stage, "spread as the embedding is");
  one_stage.stages[0].layer_runs.back().strategy.sharding_level = ShardingLevel::kParameters;
  EXPECT_OK(RankProgram::Create(one_stage, tied, 0).status());
}

TEST_F(RefusedPlan, DegreesThatDoNotDivide) {
  const Plan five = PlanOf(model, 5, {6}, {Strategy{.tensor_parallel_degree = 5}}, 8, 2);
  Refuses(five, "heads cannot be shared by 5 ranks");
  const Plan ring = PlanOf(model, 8, {6}, {Strategy{.context_parallel_degree = 8}}, 8, 2);
  Refuses(ring, "sequence_length cannot be shared by 8 ranks");
}

}  // namespace
}  // namespace parplan
