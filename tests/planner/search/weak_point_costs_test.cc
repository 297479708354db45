// Weak points 1 to 9 of the public Galvatron engine, as numbered in docs/galvatron.md:
// wrong times and sizes. Each test is a problem on which a planner with the weakness fails.

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/planners/exact/pipeline/pipeline_bound.h"
#include "planner/search/space/strategy_space.h"
#include "tests/planner/search/weak_points.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/hand_made_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using enum SearchDimension;

// Eight layers, eight devices, data parallelism, two micro-batches: 24 and 28 samples are
// 12 and 14 a micro-batch, of which each device would do 1.5 and 1.75.
TEST(WeakPoint1, MicroBatchesThatDevicesDoNotDivideAreNoPlans) {
  HandMadeOptions options{.layers = {{.count = 8}}, .device_count = 8};
  options.rules.micro_batch_count = 2;
  for (const char* planner : {"exact", "dp", "galvatron", "galvatron-bmw", "megatron"}) {
    for (const int batch : {16, 20, 24, 28, 32, 64}) {
      SCOPED_TRACE(absl::StrCat(planner, " with ", batch));
      options.global_batch_size = batch;
      const PlanningProblem problem = HandMadeProblem(options);
      if (batch % 16 != 0) {
        EXPECT_THAT(FindPlan(problem, planner), StatusIs(absl::StatusCode::kFailedPrecondition));
        continue;
      }
      const std::optional<PlanFound> found = AnswerOf(problem, planner);
      ASSERT_TRUE(found.has_value());
      // 8 layers of 3 ms a sample.
      EXPECT_GE(found->prediction.step.milliseconds(), batch / 8 * 24.0 * (1 - 1e-12));
    }
  }
}

// No batch promises more than all devices can do.
TEST(WeakPoint1, NoBatchOfARangeFlatters) {
  HandMadeOptions options{.layers = {{.count = 8}}, .device_count = 8, .global_batch_size = 64};
  options.rules.smallest_global_batch_size = 8;
  options.rules.global_batch_size_step = 4;
  for (const char* planner : {"exact", "dp", "galvatron", "galvatron-base", "galvatron-bmw"}) {
    SCOPED_TRACE(planner);
    const PlanningProblem problem = HandMadeProblem(options);
    const std::optional<PlanFound> found = AnswerOf(problem, planner);
    ASSERT_TRUE(found.has_value());
    EXPECT_OK(CheckPlanStructure(problem, found->plan));
    EXPECT_EQ(found->plan.global_batch_size % 8, 0);
    EXPECT_LE(found->prediction.samples_per_second, 8 / 0.024 * (1 + 1e-12));
  }
}

// The engine's time of a pipeline: the first and the last stage alone can limit it.
double EngineFormula(const std::vector<double>& stages, int m) {
  const int depth = static_cast<int>(stages.size());
  double sum = 0.0;
  for (const double stage : stages) sum += stage;
  const double rest = sum - stages.front();
  const double first = std::min(depth - 1, m - 1) * stages.front();
  return std::max(sum + (m - 1) * stages.back(), std::max(first / 3, rest / 3) +
                                                     std::max(2 * first / 3, 2 * rest / 3) +
                                                     stages.front() * std::max(0, m + 1 - depth));
}

TEST(WeakPoint2, MiddleStagesAndSlowFirstStagesAreCharged) {
  struct Case {
    std::vector<double> stages;
    int m;
    double share_of_simulated;
  };
  for (const Case& each : {Case{{1, 2, 1, 1}, 8, 0.68}, Case{{1, 1.5, 1.5, 1}, 16, 0.74},
                           Case{{1.1, 1, 1, 1}, 32, 0.93}}) {
    std::vector<StageTimes> times;
    for (const double stage : each.stages) {
      times.push_back({Seconds::Of(stage / 3), Seconds::Of(stage * 2 / 3)});
    }
    const double step = StepTime(Schedule::kOneForwardOneBackward, times, each.m).value();
    const double longest = *std::max_element(each.stages.begin(), each.stages.end());
    EXPECT_NEAR(EngineFormula(each.stages, each.m) / step, each.share_of_simulated, 0.01);
    EXPECT_GE(step, each.m * longest);
    // And so does the bound that plans are closed by.
    const double bound = PipelineStepBound(Schedule::kOneForwardOneBackward, times, each.m).value();
    EXPECT_GE(bound, each.m * longest);
    EXPECT_LE(bound, step * (1 + 1e-12));
  }
  std::vector<StageTimes> quoted = {{Seconds::Of(1. / 3), Seconds::Of(2. / 3)},
                                    {Seconds::Of(2. / 3), Seconds::Of(4. / 3)},
                                    {Seconds::Of(1. / 3), Seconds::Of(2. / 3)},
                                    {Seconds::Of(1. / 3), Seconds::Of(2. / 3)}};
  EXPECT_NEAR(StepTime(Schedule::kOneForwardOneBackward, quoted, 8).value(), 17.7, 0.05);
}

// Four stages of which the second takes as long as two others. One stage a device, as a
// micro-batch is one sample.
TEST(WeakPoint2, AnswersChargeTheSlowestStage) {
  HandMadeOptions options{
      .layers = {
          {.milliseconds = 1}, {.milliseconds = 2}, {.milliseconds = 1}, {.milliseconds = 1}}};
  options.rules = RulesOf({kPipeline, kUnevenStages});
  options.rules.micro_batch_count = 8;
  for (const char* planner : {"exact", "galvatron", "galvatron-bmw", "pp"}) {
    SCOPED_TRACE(planner);
    const std::optional<PlanFound> found = AnswerOf(HandMadeProblem(options), planner);
    ASSERT_TRUE(found.has_value());
    ASSERT_EQ(found->plan.stages.size(), 4u);
    // Stages of 3, 6, 3 and 3 ms a micro-batch: 3 x 17.67 ms, and messages of microseconds.
    EXPECT_NEAR(found->prediction.step.milliseconds(), 3 * 53.0 / 3, 0.1);
  }
}

// Two kinds of layers: the first has gradients that take a second to synchronise, the second loses
// half of its speed by tensor parallelism. The best plan treats each in its own way.
TEST(WeakPoint3, LayoutsChangeAtTheirPriceInSearchAndStep) {
  HandMadeOptions options{
      .layers = {{.count = 2, .milliseconds = 10, .parameter_count = 240'000'000},
                 {.count = 2, .milliseconds = 10, .tensor_loss = 0.5}},
      .device_count = 2,
      .global_batch_size = 2};
  options.rules = RulesOf({kTensor, kPerLayer});
  options.rules.micro_batch_count = 1;
  for (const char* planner : {"exact", "galvatron", "galvatron-bmw"}) {
    SCOPED_TRACE(planner);
    const PlanningProblem problem = HandMadeProblem(options);
    const std::optional<PlanFound> found = AnswerOf(problem, planner);
    ASSERT_TRUE(found.has_value());
    const std::vector<Strategy> strategies = StrategyByLayer(found->plan);
    EXPECT_EQ(strategies[0], StrategyOf(2, 1));
    EXPECT_EQ(strategies[1], StrategyOf(2, 1));
    EXPECT_EQ(strategies[2], StrategyOf(1, 2));
    EXPECT_EQ(strategies[3], StrategyOf(1, 2));
    // Both samples' activations, 768 bytes, gathered once on the way back.
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const Seconds change =
        costs.group(kFirstGroup).TransitionTime(1, strategies[1], strategies[2], 2);
    EXPECT_NEAR(change.value(), 768 * 1e-9 / 2, 1e-15);
    Seconds layers;
    for (int layer = 0; layer < 4; ++layer) {
      const LayerCost cost =
          costs.group(kFirstGroup).CostOfLayer(layer / 2, strategies[layer], 2, 1);
      layers += cost.forward + cost.backward + cost.gradient_sync + cost.optimizer_step;
    }
    EXPECT_NEAR(found->prediction.step.value(), (layers + change).value(), 1e-12);
  }
}

// In steps of 0.1 GB from where nothing fits to where nothing is left to win.
TEST(WeakPoint4, MoreMemoryIsNeverSlowerStepByStep) {
  for (const char* planner : {"exact", "megatron", "fsdp-best"}) {
    SCOPED_TRACE(planner);
    HandMadeOptions options{.layers = {{.count = 8,
                                        .milliseconds = 10,
                                        .tensor_loss = 0.3,
                                        .parameter_count = 240'000'000,
                                        .activation_bytes_per_sample = 480'000'000}}};
    options.rules = {};
    Seconds before = Seconds::Infinite();
    Bytes usable_before;
    int improvement_count = 0;
    for (int64_t tenths = 60; tenths <= 340; ++tenths) {
      options.device_memory = Bytes::Of(tenths * 100'000'000);
      const PlanningProblem problem = HandMadeProblem(options);
      // No reserve begins at some size.
      if (tenths > 60) {
        EXPECT_EQ(problem.usable_memory() - usable_before, Bytes::Of(100'000'000));
      }
      usable_before = problem.usable_memory();
      ASSERT_OK_AND_ASSIGN(const PlanningResult result, FindPlan(problem, planner));
      const auto* const found = std::get_if<PlanFound>(&result);
      const Seconds now = found == nullptr ? Seconds::Infinite() : found->prediction.step;
      EXPECT_LE(now.value(), before.value() * (1 + 1e-9)) << tenths;
      if (now < before) ++improvement_count;
      before = now;
    }
    EXPECT_TRUE(before.is_finite());
    EXPECT_GE(improvement_count, 3);
  }
}

// Eight ranks that share the tokens by all-to-alls are replicas of all parameters, just as
// eight data-parallel ones.
TEST(WeakPoint5, UlyssesSynchronisesAndShardsItsReplicas) {
  EstimatedOptions options{.device_count = 8,
                           .decoder_count = 8,
                           .hidden_size = 4096,
                           .attention_head_count = 32,
                           .global_batch_size = 8};
  options.rules.runtime.overlap_gradient_sync = false;
  const PlanningProblem problem = EstimatedProblem(options);
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
  for (const ShardingLevel level : {ShardingLevel::kNone, ShardingLevel::kOptimizer,
                                    ShardingLevel::kGradients, ShardingLevel::kParameters}) {
    const Strategy data = StrategyOf(1, 8, level);
    Strategy ulysses = StrategyOf(1, 1, level);
    ulysses.context_parallel_degree = 8;
    ulysses.context_kind = ContextKind::kUlysses;
    const LayerCost one = costs.group(kFirstGroup).CostOfLayer(1, data, 8, 1);
    const LayerCost other = costs.group(kFirstGroup).CostOfLayer(1, ulysses, 8, 1);
    EXPECT_NEAR(one.gradient_sync.value(), other.gradient_sync.value(), 1e-12);
    EXPECT_EQ(one.states(), other.states());
    if (level == ShardingLevel::kNone) {
      EXPECT_GT(other.gradient_sync, Seconds::Milliseconds(0.1));
    }
    // Every level is in the space.
    const std::vector<Strategy> strategies = StrategySpace(problem, costs).Strategies(1, 1, 8);
    EXPECT_EQ(std::count(strategies.begin(), strategies.end(), ulysses), 1)
        << static_cast<int>(level);
  }
}

// 24 million parameters of 2 bytes: gathering them takes half the 1 ns a byte of an
// all-reduce, 24 ms.
TEST(WeakPoint6, ShardedParametersAreGatheredTwiceInEveryKindOfLayer) {
  HandMadeOptions options{.layers = {{.kind = LayerKind::kEmbedding, .parameter_count = 24'000'000},
                                     {.parameter_count = 24'000'000}},
                          .device_count = 2};
  options.rules.runtime.overlap_parameter_gather = false;
  options.rules.runtime.overlap_gradient_sync = false;
  options.rules.runtime.regathers_embedding = true;
  const PlanningProblem problem = HandMadeProblem(options);
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
  const double gather = 0.024;
  for (const int definition : {0, 1}) {
    const LayerCost none = costs.group(kFirstGroup).CostOfLayer(definition, StrategyOf(1, 2), 2, 1);
    const LayerCost gradients =
        costs.group(kFirstGroup)
            .CostOfLayer(definition, StrategyOf(1, 2, ShardingLevel::kGradients), 2, 1);
    const LayerCost parameters =
        costs.group(kFirstGroup)
            .CostOfLayer(definition, StrategyOf(1, 2, ShardingLevel::kParameters), 2, 1);
    EXPECT_NEAR((parameters.forward - none.forward).value(), gather, 1e-9) << definition;
    EXPECT_NEAR((parameters.backward - gradients.backward).value(), gather, 1e-9) << definition;
    // Gradients of an embedding cost what as many of a layer do: 48 MB at 1 ns a byte.
    EXPECT_NEAR(none.gradient_sync.value(), 2 * gather, 1e-9) << definition;
  }
  // A runtime that does not look at the table in the backward pass gathers that one once.
  options.rules.runtime.regathers_embedding = false;
  const PlanningProblem without = HandMadeProblem(options);
  ASSERT_OK_AND_ASSIGN(const CostModel sparing, CostModel::Create(without));
  for (const int definition : {0, 1}) {
    const LayerCost gradients =
        sparing.group(kFirstGroup)
            .CostOfLayer(definition, StrategyOf(1, 2, ShardingLevel::kGradients), 2, 1);
    const LayerCost parameters =
        sparing.group(kFirstGroup)
            .CostOfLayer(definition, StrategyOf(1, 2, ShardingLevel::kParameters), 2, 1);
    EXPECT_NEAR((parameters.backward - gradients.backward).value(), definition == 0 ? 0.0 : gather,
                1e-9);
  }
}

TEST(WeakPoint7, GradientsThatDoNotOverlapTakeTime) {
  HandMadeOptions options{
      .layers = {{.count = 4, .milliseconds = 100, .parameter_count = 24'000'000}},
      .device_count = 2};
  options.rules.micro_batch_count = 1;
  Seconds step[2];
  for (const bool overlaps : {false, true}) {
    options.rules.runtime.overlap_gradient_sync = overlaps;
    const std::optional<PlanFound> found = AnswerOf(HandMadeProblem(options));
    ASSERT_TRUE(found.has_value());
    step[overlaps ? 1 : 0] = found->prediction.step;
  }
  // Four layers of 48 MB behind backward passes of 800 ms each, but for the last.
  EXPECT_NEAR((step[0] - step[1]).value(), 4 * 0.048, 0.048 + 1e-9);
}

// Two kinds of layers with the same costs are one kind twice: in time, in messages between
// stages (the engine charges one for each kind), and each with its own measurements.
TEST(WeakPoint8, SeveralKindsOfLayersCostWhatTheyAre) {
  const auto step_of = [](std::vector<HandMadeLayers> layers) {
    HandMadeOptions options{.layers = std::move(layers), .seconds_per_byte = 1e-6};
    options.rules = RulesOf({kPipeline, kUnevenStages});
    options.rules.micro_batch_count = 8;
    const std::optional<PlanFound> found = AnswerOf(HandMadeProblem(options));
    return found.has_value() ? found->prediction.step.value() : 0.0;
  };
  const double one_kind = step_of({{.count = 8, .milliseconds = 2}});
  EXPECT_GT(one_kind, 8 * 2 * 6e-3);
  EXPECT_DOUBLE_EQ(step_of({{.count = 4, .milliseconds = 2}, {.count = 4, .milliseconds = 2}}),
                   one_kind);
  // Like T5 with short decoders: each kind has its own time, whichever comes first.
  HandMadeOptions options{.layers = {{.milliseconds = 8}, {.hidden_size = 96, .milliseconds = 1}},
                          .device_count = 2};
  const PlanningProblem problem = HandMadeProblem(options);
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
  EXPECT_NEAR(
      costs.group(kFirstGroup).CostOfLayer(0, StrategyOf(1, 2), 2, 1).forward.milliseconds(), 8,
      1e-9);
  EXPECT_NEAR(
      costs.group(kFirstGroup).CostOfLayer(1, StrategyOf(1, 2), 2, 1).forward.milliseconds(), 1,
      1e-9);
  // And its own size in layout changes and messages.
  EXPECT_DOUBLE_EQ(
      costs.group(kFirstGroup).TransitionTime(1, StrategyOf(2, 1), StrategyOf(1, 2), 2) /
          costs.group(kFirstGroup).TransitionTime(0, StrategyOf(2, 1), StrategyOf(1, 2), 2),
      2.0);
  EXPECT_EQ(costs.group(kFirstGroup).MessageSize(1, StrategyOf(1, 1), 2),
            costs.group(kFirstGroup).MessageSize(0, StrategyOf(1, 1), 4));
}

TEST(WeakPoint9, MessagesOfFp32AreTwiceAsLong) {
  HandMadeOptions options{.layers = {{.count = 2}}, .device_count = 2};
  const auto costs_of = [&options](Precision precision) {
    options.precision = precision;
    return *CostModel::Create(HandMadeProblem(options));
  };
  const CostModel fp32 = costs_of(Precision::kFp32);
  const CostModel bf16 = costs_of(Precision::kBf16);
  // 2 samples of 4 tokens of 48 numbers.
  EXPECT_EQ(bf16.group(kFirstGroup).MessageSize(0, StrategyOf(2, 1), 2), Bytes::Of(768));
  EXPECT_EQ(fp32.group(kFirstGroup).MessageSize(0, StrategyOf(2, 1), 2), Bytes::Of(1536));
  EXPECT_DOUBLE_EQ(
      fp32.group(kFirstGroup).TransitionTime(0, StrategyOf(1, 2), StrategyOf(2, 1), 2) /
          bf16.group(kFirstGroup).TransitionTime(0, StrategyOf(1, 2), StrategyOf(2, 1), 2),
      2.0);
  const auto tensor = [](const CostModel& costs) {
    return costs.group(kFirstGroup)
        .CostOfLayer(0, StrategyOf(2, 1), 2, 1)
        .time[TimeItemKind::kTensorParallel];
  };
  EXPECT_DOUBLE_EQ(tensor(fp32) / tensor(bf16), 2.0);
}

}  // namespace
}  // namespace parplan
