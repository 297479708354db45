// Laws of predictions: whatever the coefficients, these hold.

#include "planner/cost/predict_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <tuple>
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

Strategy Degrees(int tensor, int data) {
  Strategy strategy;
  strategy.tensor_parallel_degree = tensor;
  strategy.data_parallel_degree = data;
  return strategy;
}

UniformPlan UniformOf(int depth, int tensor, int data, int64_t micro_batch_count) {
  UniformPlan uniform;
  uniform.pipeline_parallel_degree = depth;
  uniform.strategy = Degrees(tensor, data);
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

TEST(PredictPlan, OneNodeDoesNotWaitForTheNetwork) {
  EstimatedOptions options = SmallOptions();
  options.device_count = 8;
  for (const int depth : {1, 2, 4, 8}) {
    const UniformPlan shape = UniformOf(depth, 1, 8 / depth, 8);
    options.network_speed = 1.0;
    const Seconds fast = PredictionOf(options, shape).step;
    options.network_speed = 0.01;
    EXPECT_EQ(PredictionOf(options, shape).step, fast) << depth << " stages";
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

const ShardingLevel kAllLevels[] = {ShardingLevel::kNone, ShardingLevel::kOptimizer,
                                    ShardingLevel::kGradients, ShardingLevel::kParameters};

TEST(PredictPlan, FasterLinksAreNeverSlowerAtAnyShardingLevel) {
  for (const char* runtime :
       {"parplan", "megatron-core", "megatron-deepspeed", "fsdp", "deepspeed", "accelerate"}) {
    for (UniformPlan shape : Shapes()) {
      for (const ShardingLevel level : kAllLevels) {
        if (level != ShardingLevel::kNone && shape.strategy.data_parallel_degree == 1) continue;
        shape.strategy.sharding_level = level;
        EstimatedOptions options = SmallOptions();
        options.rules.runtime = *FindRuntime(runtime);
        Seconds before = Seconds::Infinite();
        for (const double speed : {0.25, 1.0, 4.0}) {
          options.link_speed = speed;
          const Seconds step = PredictionOf(options, shape).step;
          EXPECT_LE(step, before) << runtime << " level " << static_cast<int>(level);
          before = step;
        }
      }
    }
  }
}

// A rank with few layers is the true exception: what is gathered of the running layer
// and the next, and of a table for the whole pass, is then more than sharding saves.
// Never more than that, though.
TEST(PredictPlan, ShardingMoreNeverNeedsMoreButForWhatIsGathered) {
  for (const char* runtime : {"parplan", "megatron-core", "megatron-deepspeed", "deepspeed"}) {
    EstimatedOptions options = SmallOptions();
    options.rules.runtime = *FindRuntime(runtime);
    for (UniformPlan shape : Shapes()) {
      if (shape.strategy.data_parallel_degree == 1) continue;
      std::optional<Prediction> before;
      for (const ShardingLevel level : kAllLevels) {
        shape.strategy.sharding_level = level;
        const Prediction prediction = PredictionOf(options, shape);
        if (before.has_value()) {
          for (size_t i = 0; i < prediction.stages.size(); ++i) {
            const MemoryItems& now = prediction.stages[i].memory;
            const Bytes gathered = now[MemoryItemKind::kGatheredParameters];
            const Bytes rise = now.Total() - before->stages[i].memory.Total();
            // Fragmentation is a share of it.
            EXPECT_LE(rise, Bytes::Ceil(1.05 * gathered.as_double()))
                << runtime << " level " << static_cast<int>(level);
            if (shape.pipeline_parallel_degree <= 2) {
              EXPECT_LE(rise, Bytes()) << runtime << " level " << static_cast<int>(level);
            }
          }
        }
        before = prediction;
      }
    }
  }
}

// Tiny and huge sizes give numbers that one can compute with.
TEST(PredictPlan, IsFiniteAndPositiveAtTheEdges) {
  for (const int hidden : {16, 16384}) {
    for (const int sequence : {16, 1 << 17}) {
      for (const double speed : {1e-6, 1.0, 1e6}) {
        EstimatedOptions options = SmallOptions();
        options.hidden_size = hidden;
        options.attention_head_count = 8;
        options.sequence_length = sequence;
        options.link_speed = speed;
        options.device_speed = 1.0 / speed;
        for (const UniformPlan& shape : Shapes()) {
          const Prediction prediction = PredictionOf(options, shape);
          EXPECT_TRUE(prediction.step > Seconds() && prediction.step < Seconds::Infinite());
          for (const StagePrediction& stage : prediction.stages) {
            for (Bytes bytes : stage.memory.size) EXPECT_GE(bytes, Bytes());
            for (Seconds time : stage.time.duration) {
              EXPECT_GE(time, Seconds::Of(-1e-12 * prediction.step.value()));
            }
            EXPECT_GE(stage.gradient_sync, Seconds());
            EXPECT_GE(stage.idle_ratio, 0.0);
            EXPECT_LE(stage.idle_ratio, 1.0);
          }
        }
      }
    }
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

// No profile holds the collectives of these.
TEST(CheckPlanStructure, RefusesContextAndExpertParallelismWithoutDataSheets) {
  EstimatedOptions options = SmallOptions();
  options.expert_count = 8;
  UniformPlan context = UniformOf(1, 4, 4, 16);
  context.strategy.context_parallel_degree = 2;
  UniformPlan expert = UniformOf(1, 4, 8, 8);
  expert.strategy.expert_parallel_degree = 8;
  for (const UniformPlan& uniform : {context, expert}) {
    for (const bool allow_estimates : {true, false}) {
      options.rules.allow_estimates = allow_estimates;
      const PlanningProblem problem = EstimatedProblem(options);
      EXPECT_EQ(CheckPlanStructure(problem, PlanOf(problem, uniform)).ok(), allow_estimates);
    }
  }
}

TEST(PredictPlan, AgreesWithTheCheckThatPlaysEveryLayerAndPass) {
  EstimatedOptions options = SmallOptions();
  for (const char* runtime : {"parplan", "megatron-core", "megatron-deepspeed", "deepspeed"}) {
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

TEST(PredictPlan, OfInterleavedStagesAgreesWithTheCheck) {
  EstimatedOptions options = SmallOptions();
  options.rules.schedule = Schedule::kInterleaved;
  for (const char* runtime : {"parplan", "megatron-2022", "megatron-deepspeed"}) {
    options.rules.runtime = *FindRuntime(runtime);
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    for (const auto& [depth, tensor, stages] :
         {std::tuple(4, 8, 3), std::tuple(4, 2, 5), std::tuple(8, 4, 2), std::tuple(2, 4, 11)}) {
      const int data = 32 / depth / tensor;
      UniformPlan uniform = UniformOf(depth, tensor, data, 64 / data);
      uniform.virtual_stage_count = stages;
      for (const RecomputeLevel level : {RecomputeLevel::kNone, RecomputeLevel::kFull}) {
        uniform.strategy.recompute_level = level;
        Plan plan = PlanOf(problem, uniform);
        // The first half of the stages recomputes nothing: early chunks are heavier.
        for (size_t i = 0; i < plan.stages.size() / 2; ++i) {
          for (StageLayerRun& run : plan.stages[i].layer_runs) {
            run.strategy.recompute_level = RecomputeLevel::kNone;
          }
        }
        const Prediction prediction = PredictPlan(problem, costs, plan);
        ASSERT_TRUE(prediction.fits());
        EXPECT_OK(CheckPlan(problem, plan, prediction)) << runtime << " " << PlanGist(plan);
      }
    }
  }
}

// A plan of more different layers than the evaluator remembers costs.
TEST(PlanEvaluator, ForgetsNothingThatMatters) {
  EstimatedOptions options = SmallOptions();
  options.decoder_count = 120;
  options.hidden_size = 256;
  options.attention_head_count = 32;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  std::vector<Strategy> strategies;
  for (const int tensor : {1, 2, 4, 8}) {
    for (const ShardingLevel level : kAllLevels) {
      for (const int recompute : {1, 2, 3}) {
        for (const RankOrder order : {RankOrder::kTensorInnermost, RankOrder::kDataInnermost}) {
          Strategy strategy = Degrees(tensor, 32 / tensor);
          if (tensor == 1 && order == RankOrder::kDataInnermost) continue;
          strategy.rank_order = order;
          strategy.sharding_level = level;
          strategy.recompute_level = static_cast<RecomputeLevel>(recompute);
          strategies.push_back(strategy);
        }
      }
    }
  }
  ASSERT_GT(strategies.size(), 64u);
  Plan plan = PlanOf(problem, UniformOf(1, 1, 32, 2));
  std::vector<StageLayerRun>& runs = plan.stages[0].layer_runs;
  runs = {{0, 1, Degrees(1, 32)}};
  for (int layer = 0; layer < 120; ++layer) {
    runs.push_back({1 + layer, 1, strategies[static_cast<size_t>(layer) % strategies.size()]});
  }
  runs.push_back({121, 1, Degrees(1, 32)});
  PlanEvaluator evaluator(problem, costs);
  const Prediction first = evaluator.Predict(plan);
  EXPECT_OK(CheckPlan(problem, plan, first));
  const std::optional<int64_t> before = AllocationCount();
  const PlanScore again = evaluator.Evaluate(plan);
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_EQ(again.step, first.step);
  EXPECT_EQ(again.peak_memory, first.peak_memory);
}

TEST(PlanEvaluator, IsTheSameWarmAndColdAndAllocatesNothingWarm) {
  const PlanningProblem problem = EstimatedProblem(SmallOptions());
  const CostModel costs = *CostModel::Create(problem);
  PlanEvaluator evaluator(problem, costs);
  std::vector<UniformPlan> shapes = Shapes();
  UniformPlan interleaved = UniformOf(4, 2, 4, 16);
  interleaved.virtual_stage_count = 6;
  shapes.push_back(interleaved);
  for (const UniformPlan& shape : shapes) {
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
