// Stages without layers: predicted by hand, and as the check plays them.

#include <cstddef>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/layer_memory.h"
#include "planner/cost/predict_plan.h"
#include "planner/model/stage_layers.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/large_problem.h"
#include "tests/support/status_matchers.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

constexpr int kDecoder = 1;

PlanningProblem ProblemFor(const char* runtime_id, int device_count) {
  EstimatedOptions options;
  options.device_count = device_count;
  options.decoder_count = 6;
  options.hidden_size = 1024;
  options.attention_head_count = 16;
  options.sequence_length = 1024;
  options.tied_embedding = false;
  options.global_batch_size = 32;
  options.rules.schedule.reset();
  options.rules.runtime = *FindRuntime(runtime_id);
  return EstimatedProblem(options);
}

// A plan with so many layers in each stage, embedding and head among them, all under `strategy`.
Plan PlanOfCounts(const PlanningProblem& problem, const std::vector<int>& counts, int depth,
                  int64_t micro_batch_count, const Strategy& strategy) {
  Plan plan;
  plan.device_count = problem.device_count();
  plan.global_batch_size = problem.global_batch_size();
  plan.micro_batch_count = micro_batch_count;
  plan.virtual_stage_count = static_cast<int>(counts.size()) / depth;
  plan.schedule =
      plan.virtual_stage_count > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward;
  int layer = 0;
  for (size_t index = 0; index < counts.size(); ++index) {
    StagePlan stage;
    stage.rank_count = strategy.rank_count();
    stage.first_rank = static_cast<int>(index) % depth * stage.rank_count;
    for (int k = 0; k < counts[index]; ++k, ++layer) {
      Strategy own = strategy;
      if (!IsTransformer(problem.model().layer(layer).kind)) {
        own.set_recomputation(RecomputeLevel::kNone);
      }
      AppendLayer(problem.model(), layer, own, &stage);
    }
    plan.stages.push_back(stage);
  }
  return plan;
}

// One sample of 1,024 tokens of 1,024 elements of 2 bytes, divided over two ranks by sequence
// parallelism alone.
TEST(MemoryOfPassage, IsOneMessage) {
  const PlanningProblem problem = ProblemFor("megatron-core", 8);
  const CostModel costs = Valid(CostModel::Create(problem));
  Strategy strategy{.tensor_parallel_degree = 2, .data_parallel_degree = 4};
  for (const bool by_tokens : {false, true}) {
    strategy.sequence_parallel = by_tokens;
    const LayerMemory memory =
        costs.group(kFirstGroup).MemoryOfPassage(kDecoder, strategy, /*micro_batch_size=*/4);
    const Bytes message = Bytes::Of(int64_t{by_tokens ? 1 : 2} << 20);
    EXPECT_EQ(memory.message, message);
    EXPECT_EQ(memory.kept, message);
    EXPECT_EQ(memory.states(), Bytes());
    EXPECT_EQ(memory.transient(), message * 2);
  }
}

// Stage 2 is the second of the first device, and stage 3 reads what stage 1 made.
TEST(PredictPlan, OfAStageWithoutLayersTakesItsMessagesAlone) {
  const PlanningProblem problem = ProblemFor("megatron-core", 8);
  const CostModel costs = Valid(CostModel::Create(problem));
  const Strategy strategy{.tensor_parallel_degree = 2, .data_parallel_degree = 2};
  const Plan plan = PlanOfCounts(problem, {4, 2, 0, 2}, 2, 8, strategy);
  PlanEvaluator evaluator(problem, costs);
  const Prediction prediction = evaluator.Predict(plan);
  const absl::Span<const StageTimes> times = evaluator.stage_times();
  EXPECT_EQ(times[2].forward, Seconds());
  EXPECT_EQ(times[2].backward, Seconds());
  EXPECT_EQ(times[2].gradient_sync, Seconds());
  EXPECT_GT(times[2].send, Seconds());
  EXPECT_EQ(times[2].send, times[1].send);
  EXPECT_EQ(prediction.stages[0].forward, times[0].forward);
  EXPECT_EQ(prediction.stages[0].send, times[0].send + times[2].send);
}

// A device that only hands on: two micro-batches are in flight on the second of three.
TEST(PredictPlan, OfADeviceWithoutLayersKeepsOneMessageAMicroBatch) {
  const PlanningProblem problem = ProblemFor("megatron-core", 6);
  const CostModel costs = Valid(CostModel::Create(problem));
  const Strategy strategy{.data_parallel_degree = 2};
  const Plan plan = PlanOfCounts(problem, {4, 0, 4}, 3, 16, strategy);
  const Prediction prediction = PredictPlan(problem, costs, plan);
  const StagePrediction& idle = prediction.stages[1];
  EXPECT_EQ(idle.in_flight_micro_batch_count, 2);
  EXPECT_EQ(idle.forward + idle.backward + idle.gradient_sync + idle.optimizer_step, Seconds());
  const Bytes message = Bytes::Of(int64_t{2} << 20);
  EXPECT_EQ(idle.memory[MemoryItemKind::kActivations], message * 2);
  EXPECT_EQ(idle.memory[MemoryItemKind::kTransient], message * 2);
  EXPECT_EQ(idle.memory[MemoryItemKind::kParameters], Bytes());
  EXPECT_EQ(idle.memory[MemoryItemKind::kOptimizerStates], Bytes());
  EXPECT_GT(idle.memory[MemoryItemKind::kCommunicators], Bytes());
  EXPECT_NEAR(idle.idle_ratio, 1.0 - costs.step_overhead() / prediction.step, 1e-9);
}

// The last layer before an empty stage and the first one behind it are on unlike grids: the change
// is paid in the message into the stage that has layers.
TEST(PredictPlan, ChangesLayoutsBehindTheEmptyStage) {
  const PlanningProblem problem = ProblemFor("megatron-core", 8);
  const CostModel costs = Valid(CostModel::Create(problem));
  const Strategy split{.tensor_parallel_degree = 2, .data_parallel_degree = 1};
  const Strategy whole{.data_parallel_degree = 2};
  Plan plan = PlanOfCounts(problem, {2, 2, 0, 4}, 4, 8, whole);
  for (StageLayerRun& run : plan.stages[3].layer_runs) run.strategy = split;
  PlanEvaluator evaluator(problem, costs);
  const Prediction prediction = evaluator.Predict(plan);
  EXPECT_OK(CheckPlan(problem, costs, plan, prediction));
  const absl::Span<const StageTimes> times = evaluator.stage_times();
  EXPECT_EQ(times[1].send, costs.SendTime(kFirstGroup, kFirstGroup, kDecoder, whole, whole, 2,
                                          /*leaves_node=*/false, plan.micro_batch_size()));
  EXPECT_EQ(times[2].send, costs.SendTime(kFirstGroup, kFirstGroup, kDecoder, whole, split, 2,
                                          /*leaves_node=*/false, plan.micro_batch_size()));
  EXPECT_GT(times[2].send, times[1].send);
}

// A layer for a further token hands on its hidden states and those before it, and so do the stages
// behind it that have no layers.
TEST(PredictPlan, HandsOnWhatLayersForFurtherTokensMake) {
  LargeOptions options;
  options.device_count = 8;
  options.hidden_size = 1024;
  options.attention_head_count = 16;
  options.sequence_length = 1024;
  options.global_batch_size = 32;
  options.runs = {{.layer_count = 6, .feed_forward_size = 4096},
                  {.layer_count = 1, .feed_forward_size = 4096, .prediction_depth = 1}};
  options.rules.runtime = *FindRuntime("megatron-core");
  const PlanningProblem problem = LargeProblem(options);
  const CostModel costs = Valid(CostModel::Create(problem));
  const Strategy strategy{.data_parallel_degree = 2};
  const Plan plan = PlanOfCounts(problem, {4, 4, 0, 1}, 4, 8, strategy);
  PlanEvaluator evaluator(problem, costs);
  const Prediction prediction = evaluator.Predict(plan);
  EXPECT_OK(CheckPlan(problem, costs, plan, prediction));
  EXPECT_EQ(evaluator.stage_times()[2].send, evaluator.stage_times()[1].send);
  EXPECT_GT(evaluator.stage_times()[1].send, evaluator.stage_times()[0].send);
  // Two micro-batches in flight, twice as large as those of the layers before.
  const Bytes message = costs.group(kFirstGroup).MessageSize(kDecoder, strategy, 4);
  EXPECT_EQ(prediction.stages[2].memory[MemoryItemKind::kActivations], message * 4);
}

// Embedding or head may be alone in their stage, and any stage between may be empty.
TEST(PredictPlan, OfStagesWithoutLayersAgreesWithTheCheck) {
  std::mt19937 random(15);
  int empty_count = 0;
  for (const char* runtime_id : {"megatron-core", "megatron-bridge", "megatron-core-fp8"}) {
    const PlanningProblem problem = ProblemFor(runtime_id, 8);
    const CostModel costs = Valid(CostModel::Create(problem));
    const int layer_count = problem.model().layer_count();
    for (const auto& [depth, chunks, tensor] :
         {std::tuple(2, 2, 2), std::tuple(4, 2, 1), std::tuple(2, 5, 2), std::tuple(4, 3, 2),
          std::tuple(8, 1, 1), std::tuple(8, 2, 1)}) {
      for (int round = 0; round < 12; ++round) {
        const auto below = [&random](int bound) {
          return static_cast<int>(random() % static_cast<unsigned>(bound));
        };
        std::vector<int> counts(static_cast<size_t>(depth * chunks), 0);
        ++counts.front();
        ++counts.back();
        for (int layer = 2; layer < layer_count; ++layer) {
          ++counts[static_cast<size_t>(below(depth * chunks))];
        }
        Strategy strategy{.tensor_parallel_degree = tensor,
                          .data_parallel_degree = 8 / depth / tensor};
        strategy.sequence_parallel = tensor > 1 && below(2) == 0;
        if (below(2) == 0) strategy.recompute_level = RecomputeLevel::kFull;
        Plan plan = PlanOfCounts(problem, counts, depth, 16, strategy);
        if (chunks > 1 && below(2) == 0) plan.micro_batch_group_size = 16;
        for (const StagePlan& stage : plan.stages) empty_count += stage.is_empty() ? 1 : 0;
        ASSERT_OK(CheckPlanStructure(problem, plan)) << PlanGist(plan);
        const Prediction prediction = PredictPlan(problem, costs, plan);
        ASSERT_TRUE(prediction.fits());
        EXPECT_OK(CheckPlan(problem, costs, plan, prediction))
            << runtime_id << " " << PlanGist(plan);
      }
    }
  }
  EXPECT_GT(empty_count, 200);
}

TEST(CheckPlanStructure, HasStagesWithoutLayersBetweenOthersAlone) {
  const Strategy strategy{.data_parallel_degree = 2};
  const auto check = [&strategy](const char* runtime_id, const std::vector<int>& counts,
                                 int depth) {
    const PlanningProblem problem = ProblemFor(runtime_id, 2 * depth);
    return CheckPlanStructure(problem, PlanOfCounts(problem, counts, depth, 8, strategy));
  };
  const auto refused = [](const char* part) {
    return StatusIs(absl::StatusCode::kInternal, HasSubstr(part));
  };
  EXPECT_OK(check("megatron-core", {4, 0, 0, 4}, 2));
  EXPECT_OK(check("megatron-core", {4, 0, 4}, 3));
  EXPECT_THAT(check("megatron-core", {0, 4, 0, 4}, 2), refused("stage 0 has no layers, and the"));
  EXPECT_THAT(check("megatron-core", {4, 0, 4, 0}, 2), refused("stage 3 has no layers, and the"));
  EXPECT_THAT(check("megatron-core", {4, 0, 4}, 1),
              refused("virtual_stage_count is 3 in a pipeline of one"));
  for (const RuntimeTraits& runtime : KnownRuntimes()) {
    const absl::Status status = check(runtime.runtime_id.c_str(), {4, 0, 0, 4}, 2);
    if (runtime.runs_empty_stages) {
      EXPECT_OK(status) << runtime.runtime_id;
    } else {
      EXPECT_THAT(status, refused("stage 1 has no layers, which the runtime"));
    }
  }
}

}  // namespace
}  // namespace parplan
