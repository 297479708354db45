#include "planner/cost/predict_plan.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "planner/cost/cost_model.h"
#include "tests/planner/cost/small_problem.h"

namespace parplan {
namespace {

// Two stages of two layers each on two devices a stage.
Plan TwoStages(const Strategy& strategy) {
  Plan plan;
  plan.device_count = 4;
  plan.global_batch_size = 16;
  plan.micro_batch_count = 4;
  plan.stages.push_back({0, 2, {{0, 1, strategy}, {1, 1, strategy}}});
  plan.stages.push_back({2, 2, {{2, 1, strategy}, {3, 1, strategy}}});
  return plan;
}

TEST(PredictPlan, KeepsMoreMicroBatchesInEarlierStages) {
  const PlanningProblem problem = SmallProblem();
  const Prediction prediction =
      PredictPlan(problem, *CostModel::Create(problem), TwoStages(Degrees(1, 2)));
  ASSERT_EQ(prediction.stages.size(), 2u);
  // Two layers of 800 bytes per sample and two samples per device.
  EXPECT_EQ(prediction.stages[0].memory[MemoryItemKind::kActivations], Bytes::Of(2 * 2 * 1600));
  EXPECT_EQ(prediction.stages[1].memory[MemoryItemKind::kActivations], Bytes::Of(2 * 1600));
  EXPECT_EQ(prediction.stages[0].memory[MemoryItemKind::kContext], Bytes::Of(5000));
}

// Stages of two layers, two samples a device: 4 ms forward and 12 ms backward. Messages
// of 32 bytes take 0.016 ms. All-reduces of 2 x 2000 bytes, 2 ms each beside 6 ms, add 2 x
// 0.5 ms.
//
//   stage 0  F1 0-4        F2 4-8          B1 20.032-32.032  F3 -36.032  B2 -48.032  F4
//            -52.032       B3 52.064-64.064                  B4 68.064-80.064
//   stage 1  F1 4.016-8.016  B1 -20.016  F2 -24.016  B2 -36.016  F3 36.048-40.048
//            B3 -52.048  F4 52.048-56.048  B4 -68.048
TEST(PredictPlan, OfTwoStagesIsWorkedByHand) {
  const PlanningProblem problem = SmallProblem();
  const CostModel costs = *CostModel::Create(problem);
  const Prediction prediction = PredictPlan(problem, costs, TwoStages(Degrees(1, 2)));
  EXPECT_NEAR(prediction.step.milliseconds(), 80.064 + 1.0, 1e-9);
  const StagePrediction& first = prediction.stages[0];
  EXPECT_NEAR(first.forward.milliseconds(), 4.0, 1e-12);
  EXPECT_NEAR(first.backward.milliseconds(), 12.0, 1e-12);
  EXPECT_NEAR(first.send.milliseconds(), 0.016, 1e-12);
  EXPECT_NEAR(first.gradient_sync.milliseconds(), 1.0, 1e-12);
  EXPECT_EQ(first.optimizer_step, Seconds());
  EXPECT_NEAR(first.idle_ratio, 1.0 - (4 * 16.0 + 1.0) / 81.064, 1e-12);
  EXPECT_EQ(first.in_flight_micro_batch_count, 2);
  EXPECT_EQ(prediction.stages[1].in_flight_micro_batch_count, 1);

  // Two layers of 1000 parameters at 2 + 2 + 8 + 4 bytes; two layers of 2 x 800 bytes of
  // two micro-batches; a message each way.
  MemoryItems memory;
  memory[MemoryItemKind::kParameters] = Bytes::Of(2 * 2000);
  memory[MemoryItemKind::kGradients] = Bytes::Of(2 * 2000);
  memory[MemoryItemKind::kOptimizerStates] = Bytes::Of(2 * 8000);
  memory[MemoryItemKind::kMasterParameters] = Bytes::Of(2 * 4000);
  memory[MemoryItemKind::kActivations] = Bytes::Of(2 * 2 * 1600);
  memory[MemoryItemKind::kTransient] = Bytes::Of(2 * 32);
  memory[MemoryItemKind::kContext] = Bytes::Of(5000);
  EXPECT_EQ(first.memory, memory);
  EXPECT_EQ(prediction.peak_memory, Bytes::Of(43464));
  // The embedding makes a gradient of 4 x 128 elements; its moment is not the fullest,
  // but the bound counts with it.
  EXPECT_EQ(prediction.peak_memory_upper,
            costs.group(kFirstGroup).overheads().Upper(Bytes::Of(43464 + 2 * 4 * 128)));
}

TEST(PredictPlan, ItemsAddUpToPeaksAndTimes) {
  const PlanningProblem problem = SmallProblem();
  for (const Strategy& strategy : {Degrees(1, 2), Degrees(2, 1)}) {
    const Prediction prediction =
        PredictPlan(problem, *CostModel::Create(problem), TwoStages(strategy));
    Bytes peak;
    for (const StagePrediction& stage : prediction.stages) {
      EXPECT_NEAR(stage.time.Total().value(), (stage.forward + stage.backward).value(), 1e-15);
      peak = std::max(peak, stage.memory.Total());
    }
    EXPECT_EQ(prediction.peak_memory, peak);
    EXPECT_NEAR(prediction.samples_per_second * prediction.step.value(), 16.0, 1e-9);
  }
}

TEST(PredictPlan, SplittingARunChangesNothing) {
  const PlanningProblem problem = SmallProblem();
  const CostModel costs = *CostModel::Create(problem);
  Plan whole;
  whole.device_count = 4;
  whole.global_batch_size = 16;
  whole.stages.push_back(
      {0, 4, {{0, 1, Degrees(2, 2)}, {1, 2, Degrees(2, 2)}, {3, 1, Degrees(2, 2)}}});
  Plan split = whole;
  split.stages[0].layer_runs = {
      {0, 1, Degrees(2, 2)}, {1, 1, Degrees(2, 2)}, {2, 1, Degrees(2, 2)}, {3, 1, Degrees(2, 2)}};
  const Prediction a = PredictPlan(problem, costs, whole);
  const Prediction b = PredictPlan(problem, costs, split);
  EXPECT_NEAR(a.step.value(), b.step.value(), 1e-15);
  EXPECT_EQ(a.peak_memory, b.peak_memory);
}

}  // namespace
}  // namespace parplan
