// Laws of predictions: whatever the coefficients, these hold.

#include "planner/cost/predict_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "tests/support/allocation_count.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

EstimatedOptions SmallOptions() {
  EstimatedOptions options;
  options.device_count = 32;
  options.decoder_count = 24;
  options.hidden_size = 2048;
  options.attention_head_count = 16;
  options.global_batch_size = 64;
  return options;
}

Strategy Of(int tensor, int data) {
  Strategy strategy;
  strategy.tensor_parallel_degree = tensor;
  strategy.data_parallel_degree = data;
  return strategy;
}

UniformPlan UniformOf(int depth, int tensor, int data, int64_t micro_batch_count) {
  UniformPlan uniform;
  uniform.pipeline_parallel_degree = depth;
  uniform.strategy = Of(tensor, data);
  uniform.micro_batch_count = micro_batch_count;
  return uniform;
}

// Shapes of 32 devices worth looking at.
std::vector<UniformPlan> Shapes() {
  std::vector<UniformPlan> shapes;
  for (const auto& [depth, tensor] : {std::pair(1, 1), std::pair(1, 8), std::pair(2, 4),
                                      std::pair(4, 2), std::pair(4, 8), std::pair(8, 1)}) {
    const int data = 32 / depth / tensor;
    shapes.push_back(UniformOf(depth, tensor, data, 64 / data));
    if (64 / data > 1) shapes.push_back(UniformOf(depth, tensor, data, 64 / data / 2));
  }
  return shapes;
}

Prediction PredictionOf(const EstimatedOptions& options, const UniformPlan& uniform) {
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  return PredictPlan(problem, costs, PlanOf(problem, uniform));
}

TEST(PredictPlan, OfAnUnmeasuredModelIsMarkedEstimatedAndSaysWhy) {
  const Prediction prediction = PredictionOf(SmallOptions(), UniformOf(4, 2, 4, 16));
  EXPECT_EQ(prediction.confidence, Confidence::kEstimated);
  EXPECT_FALSE(prediction.estimated_items.empty());
  EXPECT_FALSE(prediction.range_basis.empty());
  EXPECT_LE(prediction.step_lower, prediction.step);
  EXPECT_GE(prediction.step_upper, prediction.step);
  EXPECT_LE(prediction.peak_memory_lower, prediction.peak_memory);
  EXPECT_GE(prediction.peak_memory_upper, prediction.peak_memory);
}

TEST(PredictPlan, TimeItemsAddUpToThePasses) {
  for (const UniformPlan& shape : Shapes()) {
    const Prediction prediction = PredictionOf(SmallOptions(), shape);
    for (const StagePrediction& stage : prediction.stages) {
      const double passes = (stage.forward + stage.backward).value();
      EXPECT_NEAR(stage.time.Total().value(), passes, 1e-9 * passes);
    }
  }
}

TEST(PredictPlan, FasterDevicesAndLinksAreNeverSlower) {
  for (const UniformPlan& shape : Shapes()) {
    EstimatedOptions options = SmallOptions();
    const Seconds plain = PredictionOf(options, shape).step;
    options.device_speed = 2.0;
    const Seconds fast_device = PredictionOf(options, shape).step;
    EXPECT_LE(fast_device, plain);
    options.device_speed = 1.0;
    options.link_speed = 2.0;
    const Seconds fast_links = PredictionOf(options, shape).step;
    EXPECT_LE(fast_links, plain);
  }
}

TEST(PredictPlan, WhatSavesMemoryNeverRaisesIt) {
  for (UniformPlan shape : Shapes()) {
    Bytes before = Bytes::Max();
    for (const RecomputeLevel level :
         {RecomputeLevel::kNone, RecomputeLevel::kSelective, RecomputeLevel::kFull}) {
      shape.strategy.recompute_level = level;
      const Bytes peak = PredictionOf(SmallOptions(), shape).peak_memory;
      EXPECT_LE(peak, before);
      before = peak;
    }
  }
}

TEST(PredictPlan, ShardingOptimizerStatesSavesTheirMemory) {
  for (UniformPlan shape : Shapes()) {
    if (shape.strategy.data_parallel_degree == 1) continue;
    const Bytes plain = PredictionOf(SmallOptions(), shape).peak_memory;
    shape.strategy.sharding_level = ShardingLevel::kOptimizer;
    const Prediction sharded = PredictionOf(SmallOptions(), shape);
    EXPECT_LT(sharded.peak_memory, plain);
    shape.strategy.sharding_level = ShardingLevel::kParameters;
    const Prediction whole = PredictionOf(SmallOptions(), shape);
    EXPECT_LT(whole.stages[0].memory[MemoryItemKind::kParameters],
              sharded.stages[0].memory[MemoryItemKind::kParameters]);
  }
}

TEST(PredictPlan, RecomputingMoreTakesLonger) {
  for (UniformPlan shape : Shapes()) {
    Seconds before;
    for (const RecomputeLevel level :
         {RecomputeLevel::kNone, RecomputeLevel::kSelective, RecomputeLevel::kFull}) {
      shape.strategy.recompute_level = level;
      const Seconds step = PredictionOf(SmallOptions(), shape).step;
      EXPECT_GE(step, before);
      before = step;
    }
  }
}

TEST(PredictPlan, CuttingARunOfLayersChangesNothing) {
  const PlanningProblem problem = EstimatedProblem(SmallOptions());
  const CostModel costs = *CostModel::Create(problem);
  for (const UniformPlan& shape : Shapes()) {
    const Plan plan = PlanOf(problem, shape);
    Plan cut = plan;
    for (StagePlan& stage : cut.stages) {
      std::vector<StageLayerRun> runs;
      for (const StageLayerRun& run : stage.layer_runs) {
        for (int layer = 0; layer < run.layer_count; ++layer) {
          runs.push_back({run.first_layer_index + layer, 1, run.strategy});
        }
      }
      stage.layer_runs = runs;
    }
    const Prediction whole = PredictPlan(problem, costs, plan);
    const Prediction pieces = PredictPlan(problem, costs, cut);
    EXPECT_EQ(whole.peak_memory, pieces.peak_memory);
    EXPECT_EQ(whole.peak_memory_upper, pieces.peak_memory_upper);
    EXPECT_NEAR(whole.step / pieces.step, 1.0, 1e-9);
  }
}

TEST(PredictPlan, MoreMicroBatchesOfASampleTakeLonger) {
  EstimatedOptions options = SmallOptions();
  Seconds before;
  for (const int64_t samples : {64, 128, 256}) {
    options.global_batch_size = samples;
    const Seconds step = PredictionOf(options, UniformOf(4, 2, 4, samples / 4)).step;
    EXPECT_GT(step, before);
    before = step;
  }
}

TEST(PredictPlan, InterleavingShrinksTheBubbleAndKeepsMore) {
  const EstimatedOptions options = SmallOptions();
  UniformPlan uniform = UniformOf(4, 8, 1, 16);
  const Prediction plain = PredictionOf(options, uniform);
  uniform.virtual_stage_count = 3;
  const Prediction interleaved = PredictionOf(options, uniform);
  EXPECT_LT(interleaved.step, plain.step);
  EXPECT_EQ(interleaved.stages.size(), plain.stages.size());
  EXPECT_GT(interleaved.stages[0].memory[MemoryItemKind::kActivations],
            plain.stages[0].memory[MemoryItemKind::kActivations]);
}

TEST(PredictPlan, ContextAndExpertParallelismShareWhatTheyShare) {
  EstimatedOptions options = SmallOptions();
  UniformPlan uniform = UniformOf(1, 4, 8, 8);
  const Prediction plain = PredictionOf(options, uniform);
  uniform.strategy.data_parallel_degree = 4;
  uniform.strategy.context_parallel_degree = 2;
  uniform.micro_batch_count = 16;
  const Prediction context = PredictionOf(options, uniform);
  EXPECT_GT(context.stages[0].time[TimeItemKind::kContextParallel], Seconds());
  EXPECT_LT(context.stages[0].memory[MemoryItemKind::kActivations],
            plain.stages[0].memory[MemoryItemKind::kActivations]);

  options.expert_count = 8;
  uniform = UniformOf(1, 4, 8, 8);
  const Prediction together = PredictionOf(options, uniform);
  uniform.strategy.expert_parallel_degree = 8;
  const Prediction apart = PredictionOf(options, uniform);
  EXPECT_GT(apart.stages[0].time[TimeItemKind::kExpertParallel], Seconds());
  EXPECT_LT(apart.stages[0].memory[MemoryItemKind::kParameters],
            together.stages[0].memory[MemoryItemKind::kParameters]);
}

TEST(PredictPlan, AgreesWithTheCheckThatPlaysEveryLayerAndPass) {
  EstimatedOptions options = SmallOptions();
  for (const char* runtime : {"parplan", "megatron-core", "megatron-deepspeed"}) {
    options.rules.runtime = *FindRuntime(runtime);
    for (UniformPlan shape : Shapes()) {
      if (shape.strategy.data_parallel_degree > 1) {
        shape.strategy.sharding_level = ShardingLevel::kOptimizer;
      }
      const PlanningProblem problem = EstimatedProblem(options);
      ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
      const Plan plan = PlanOf(problem, shape);
      const Prediction prediction = PredictPlan(problem, costs, plan);
      if (!prediction.fits()) continue;
      EXPECT_OK(CheckPlan(problem, plan, prediction)) << runtime << " " << PlanGist(plan);
    }
  }
}

TEST(PlanEvaluator, IsTheSameWarmAndColdAndAllocatesNothingWarm) {
  const PlanningProblem problem = EstimatedProblem(SmallOptions());
  const CostModel costs = *CostModel::Create(problem);
  PlanEvaluator evaluator(problem, costs);
  for (const UniformPlan& shape : Shapes()) {
    const Plan plan = PlanOf(problem, shape);
    const PlanScore cold = PlanEvaluator(problem, costs).Evaluate(plan);
    const PlanScore first = evaluator.Evaluate(plan);
    const std::optional<int64_t> before = AllocationCount();
    const PlanScore warm = evaluator.Evaluate(plan);
    EXPECT_EQ(AllocationCount(), before);
    EXPECT_EQ(cold.step, first.step);
    EXPECT_EQ(cold.step, warm.step);
    EXPECT_EQ(cold.peak_memory, warm.peak_memory);
    EXPECT_EQ(cold.peak_memory_upper, warm.peak_memory_upper);
  }
}

}  // namespace
}  // namespace parplan
