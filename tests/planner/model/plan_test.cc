#include "planner/model/plan.h"

#include <gtest/gtest.h>

namespace parplan {
namespace {

Strategy TensorParallelRecomputing(int degree, bool recompute) {
  Strategy strategy;
  strategy.tensor_parallel_degree = degree;
  strategy.recompute_level = recompute ? RecomputeLevel::kFull : RecomputeLevel::kNone;
  return strategy;
}

// Two stages on four ranks each; the runs of the first differ in their layers
// only.
Plan TwoStagesOfEight() {
  Plan plan;
  plan.device_count = 8;
  plan.global_batch_size = 32;
  plan.micro_batch_count = 8;
  plan.stages = {
      {0,
       4,
       {{0, 1, TensorParallelRecomputing(4, true)}, {1, 15, TensorParallelRecomputing(4, true)}}},
      {4,
       4,
       {{16, 15, TensorParallelRecomputing(4, true)},
        {31, 1, TensorParallelRecomputing(4, false)}}},
  };
  return plan;
}

TEST(PlanGist, JoinsRunsOfOneStrategyAndSeparatesStages) {
  EXPECT_EQ(PlanGist(TwoStagesOfEight()), "2-4-1-c x16 | 2-4-1-c x15, 2-4-1 x1");
}

TEST(PlanGist, KeepsTheOrderOfStrategiesThatComeBack) {
  Plan plan = TwoStagesOfEight();
  plan.stages = {{0,
                  4,
                  {{0, 2, TensorParallelRecomputing(4, true)},
                   {2, 1, TensorParallelRecomputing(4, false)},
                   {3, 4, TensorParallelRecomputing(4, true)}}}};
  EXPECT_EQ(PlanGist(plan), "1-4-1-c x2, 1-4-1 x1, 1-4-1-c x4");
}

TEST(PlanGist, NamesStagesWithoutLayers) {
  Plan plan = TwoStagesOfEight();
  plan.virtual_stage_count = 2;
  plan.stages.insert(plan.stages.begin() + 1, 2, StagePlan{});
  EXPECT_EQ(PlanGist(plan), "2-4-1-c x16 | empty | empty | 2-4-1-c x15, 2-4-1 x1");
}

TEST(PlanGist, OfNoStagesIsEmpty) { EXPECT_EQ(PlanGist(Plan()), ""); }

TEST(SentRun, IsThatOfTheNearestStageWithLayers) {
  Plan plan = TwoStagesOfEight();
  plan.stages.insert(plan.stages.begin() + 1, 2, StagePlan{});
  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(&SentRun(plan, stage), &plan.stages[0].layer_runs.back()) << stage;
  }
  EXPECT_EQ(&SentRun(plan, 3), &plan.stages[3].layer_runs.back());
}

// A stage without layers changes no layout: the change is in the message to the next one.
TEST(ReceivingStrategy, IsThatOfTheLayerBeforeAnEmptyStage) {
  Plan plan = TwoStagesOfEight();
  plan.stages[0].layer_runs.back().strategy.data_parallel_degree = 2;
  plan.stages.insert(plan.stages.begin() + 1, 2, StagePlan{});
  EXPECT_EQ(ReceivingStrategy(plan, 0), plan.stages[0].layer_runs.front().strategy);
  EXPECT_EQ(ReceivingStrategy(plan, 1), plan.stages[0].layer_runs.back().strategy);
  EXPECT_EQ(ReceivingStrategy(plan, 2), plan.stages[0].layer_runs.back().strategy);
  EXPECT_EQ(ReceivingStrategy(plan, 3), plan.stages[3].layer_runs.front().strategy);
}

TEST(Plan, CountsWhatItIsMadeOf) {
  const Plan plan = TwoStagesOfEight();
  EXPECT_EQ(plan.pipeline_parallel_degree(), 2);
  EXPECT_EQ(plan.micro_batch_size(), 4);
  EXPECT_EQ(plan.stages[1].first_layer_index(), 16);
  EXPECT_EQ(plan.stages[1].layer_count(), 16);
  EXPECT_FALSE(plan.stages[1].is_empty());
  EXPECT_TRUE(StagePlan{}.is_empty());
  EXPECT_EQ(StagePlan{}.layer_count(), 0);
}

TEST(InFlightMicroBatchCount, OfOneForwardOneBackwardFallsFromStageToStage) {
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(InFlightMicroBatchCount(Schedule::kOneForwardOneBackward, 4, stage, 16), 4 - stage);
  }
}

TEST(InFlightMicroBatchCount, NeverExceedsTheMicroBatchesThereAre) {
  EXPECT_EQ(InFlightMicroBatchCount(Schedule::kOneForwardOneBackward, 8, 0, 3), 3);
  EXPECT_EQ(InFlightMicroBatchCount(Schedule::kOneForwardOneBackward, 8, 6, 3), 2);
  EXPECT_EQ(InFlightMicroBatchCount(Schedule::kOneForwardOneBackward, 1, 0, 16), 1);
}

TEST(InFlightMicroBatchCount, OfOneStageIsOneUnderAnySchedule) {
  EXPECT_EQ(InFlightMicroBatchCount(Schedule::kGpipe, 1, 0, 16), 1);
}

TEST(InFlightMicroBatchCount, OfGpipeIsEveryMicroBatchOnEveryStage) {
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(InFlightMicroBatchCount(Schedule::kGpipe, 4, stage, 16), 16);
  }
}

TEST(MemoryItems, AddUpToThePeak) {
  StagePrediction stage;
  stage.memory[MemoryItemKind::kParameters] = Bytes::Of(5);
  stage.memory[MemoryItemKind::kContext] = Bytes::Of(7);
  EXPECT_EQ(stage.peak_memory(), Bytes::Of(12));
}

TEST(Prediction, FitsUpToTheLastByte) {
  Prediction prediction;
  prediction.usable_memory = Bytes::Of(10);
  prediction.peak_memory_upper = Bytes::Of(10);
  EXPECT_TRUE(prediction.fits());
  prediction.peak_memory_upper = Bytes::Of(11);
  EXPECT_FALSE(prediction.fits());
}

}  // namespace
}  // namespace parplan
