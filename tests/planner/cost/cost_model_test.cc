#include "planner/cost/cost_model.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "planner/cost/fabric_time.h"
#include "tests/planner/cost/small_problem.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(CostModel, OneDeviceOnlyComputes) {
  const LayerCost cost = SmallCosts().group(kFirstGroup).CostOfLayer(kDecoder, Degrees(1, 1), 2, 1);
  EXPECT_DOUBLE_EQ(cost.forward.milliseconds(), 2.0);
  EXPECT_DOUBLE_EQ(cost.backward.milliseconds(), 6.0);
  EXPECT_EQ(cost.gradient_sync, Seconds());
  EXPECT_EQ(cost.memory.parameters, Bytes::Of(2000));
  EXPECT_EQ(cost.memory.gradients, Bytes::Of(2000));
  EXPECT_EQ(cost.memory.optimizer_states, Bytes::Of(8000));
  EXPECT_EQ(cost.memory.master_parameters, Bytes::Of(4000));
  EXPECT_EQ(cost.kept_per_micro_batch(), Bytes::Of(1600));
  EXPECT_EQ(cost.transient(), Bytes());
}

TEST(CostModel, TheOptimizersStepIsWhatWasMeasuredOfTheParametersARankSteps) {
  const PlanningProblem problem = SmallProblem([](ProfileSnapshot::Content& content) {
    for (const int64_t count : {500, 2000}) {
      content.optimizers.push_back({Optimizer::kAdam, Precision::kBf16, count,
                                    Seconds::Milliseconds(2.0 * static_cast<double>(count)),
                                    Origin::kMeasured});
    }
    // Others' do not count.
    content.optimizers.push_back(
        {Optimizer::kSgd, Precision::kBf16, 1000, Seconds::Milliseconds(1.0)});
    content.optimizers.push_back(
        {Optimizer::kAdam, Precision::kFp32, 1000, Seconds::Milliseconds(1.0)});
  });
  const CostModel costs = *CostModel::Create(problem);
  EXPECT_DOUBLE_EQ(costs.group(kFirstGroup)
                       .CostOfLayer(kDecoder, Degrees(1, 2), 2, 1)
                       .optimizer_step.milliseconds(),
                   2000.0);
  EXPECT_DOUBLE_EQ(costs.group(kFirstGroup)
                       .CostOfLayer(kDecoder, Degrees(2, 1), 2, 1)
                       .optimizer_step.milliseconds(),
                   1000.0);
  Strategy sharded = Degrees(1, 2);
  sharded.sharding_level = ShardingLevel::kOptimizer;
  EXPECT_DOUBLE_EQ(
      costs.group(kFirstGroup).CostOfLayer(kDecoder, sharded, 2, 1).optimizer_step.milliseconds(),
      1000.0);
  EXPECT_EQ(
      SmallCosts().group(kFirstGroup).CostOfLayer(kDecoder, Degrees(1, 2), 2, 1).optimizer_step,
      Seconds());
  // Sharded gradients are cleared (2 bytes a parameter) and added up (3 times 2 of half of them)
  // in every backward pass, of the 30 that the step moves.
  const auto sharded_traffic = [&](const CostModel& model) {
    Strategy gradients = Degrees(1, 2);
    gradients.sharding_level = ShardingLevel::kGradients;
    return model.group(kFirstGroup)
        .CostOfLayer(kDecoder, gradients, 2, 1)
        .time[TimeItemKind::kShardedDataParallel]
        .milliseconds();
  };
  EXPECT_NEAR(sharded_traffic(costs) - sharded_traffic(SmallCosts()), 2000.0 * 5.0 / 30.0, 1e-9);
}

TEST(CostModel, TensorParallelismAddsTwoAllReducesEachWay) {
  const LayerCost cost = SmallCosts().group(kFirstGroup).CostOfLayer(kDecoder, Degrees(2, 1), 2, 1);
  // Messages of 2 samples * 16 bytes take 0.032 ms.
  EXPECT_NEAR(cost.forward.milliseconds(), 1.1 + 2 * 0.032, 1e-12);
  EXPECT_NEAR(cost.backward.milliseconds(), 3.3 + 2 * 0.032, 1e-12);
  EXPECT_NEAR(cost.time[TimeItemKind::kTensorParallel].milliseconds(), 4 * 0.032, 1e-12);
  EXPECT_EQ(cost.memory.parameters, Bytes::Of(1000));
  EXPECT_EQ(cost.kept_per_micro_batch(), Bytes::Of(1000));
}

// Queries, keys and values, and one product of the feed-forward part that is not gated: four sums
// instead of two. A gated one has a fifth.
TEST(CostModel, EachProjectionMaySumTheGradientOfItsInput) {
  PlanningRules rules;
  rules.runtime.reduces_each_projection = true;
  const LayerCost cost = CostModel::Create(SmallProblem({}, rules))
                             ->group(kFirstGroup)
                             .CostOfLayer(kDecoder, Degrees(2, 1), 2, 1);
  EXPECT_NEAR(cost.forward.milliseconds(), 1.1 + 2 * 0.032, 1e-12);
  EXPECT_NEAR(cost.backward.milliseconds(), 3.3 + 4 * 0.032, 1e-12);
}

// Half of the table of 51,200 rows is in the embedding of two tensor-parallel ranks, or all of it.
TEST(CostModel, TablesThatNoHeadSharesMayBeWholeOnTensorParallelRanks) {
  const auto costs = [](bool is_tied, bool is_whole, int tensor) {
    EstimatedOptions options;
    options.device_count = 8;
    options.decoder_count = 2;
    options.global_batch_size = 8;
    options.tied_embedding = is_tied;
    options.rules.runtime.sequence_parallel = false;
    options.rules.runtime.whole_untied_tables = is_whole;
    const PlanningProblem problem = EstimatedProblem(options);
    return CostModel::Create(problem)->group(kFirstGroup).CostOfLayer(0, Degrees(tensor, 1), 1, 1);
  };
  const Bytes whole = costs(false, false, 1).memory.parameters;
  for (const bool is_tied : {false, true}) {
    EXPECT_LT(costs(is_tied, false, 2).memory.parameters, whole);
    EXPECT_GT(costs(is_tied, false, 2).time[TimeItemKind::kTensorParallel], Seconds());
  }
  EXPECT_EQ(costs(false, true, 2).memory.parameters, whole);
  EXPECT_EQ(costs(false, true, 2).time[TimeItemKind::kTensorParallel], Seconds());
  EXPECT_EQ(costs(true, true, 2).memory.parameters, costs(true, false, 2).memory.parameters);
}

// The plans of tensors inside transformers, which Accelerate applies: a decoder layer that is not
// gated sums six times instead of four, logits are gathered and a table is whole.
TEST(CostModel, TensorParallelismOfAccelerateIsThatOfTransformers) {
  const auto cost = [](const char* runtime, int definition, int tensor) {
    EstimatedOptions options;
    options.device_count = 8;
    options.decoder_count = 2;
    options.global_batch_size = 64;
    options.tied_embedding = false;
    options.rules.runtime = *FindRuntime(runtime);
    return CostModel::Create(EstimatedProblem(options))
        ->group(kFirstGroup)
        .CostOfLayer(definition, Degrees(tensor, 1), 16, 1);
  };
  constexpr int kEmbeddingIndex = 0, kDecoderIndex = 1, kHeadIndex = 2;
  constexpr TimeItemKind kExchange = TimeItemKind::kTensorParallel;
  for (const int definition : {kEmbeddingIndex, kDecoderIndex, kHeadIndex}) {
    EXPECT_EQ(cost("accelerate", definition, 1).forward, cost("fsdp", definition, 1).forward);
    EXPECT_EQ(cost("accelerate", definition, 1).backward, cost("fsdp", definition, 1).backward);
  }
  EXPECT_NEAR(cost("accelerate", kDecoderIndex, 2).time[kExchange].value(),
              1.5 * cost("fsdp", kDecoderIndex, 2).time[kExchange].value(), 1e-9);
  EXPECT_EQ(cost("accelerate", kEmbeddingIndex, 2).time[kExchange], Seconds());
  EXPECT_EQ(cost("accelerate", kEmbeddingIndex, 2).memory.parameters,
            cost("fsdp", kEmbeddingIndex, 1).memory.parameters);
  EXPECT_GT(cost("accelerate", kHeadIndex, 2).time[kExchange],
            cost("fsdp", kHeadIndex, 2).time[kExchange]);
  EXPECT_NEAR(cost("accelerate", kHeadIndex, 2).memory.logits.as_double(),
              2.0 * cost("fsdp", kHeadIndex, 2).memory.logits.as_double(), 2.0);
}

TEST(CostModel, RecomputationRepeatsTheForwardPassAndItsCollectives) {
  Strategy strategy = Degrees(2, 1);
  strategy.recompute_level = RecomputeLevel::kFull;
  const LayerCost cost = SmallCosts().group(kFirstGroup).CostOfLayer(kDecoder, strategy, 2, 1);
  EXPECT_NEAR(cost.backward.milliseconds(), 3.3 + 1.1 + 4 * 0.032, 1e-12);
  EXPECT_EQ(cost.kept_per_micro_batch(), Bytes::Of(32));
  EXPECT_EQ(cost.transient(), Bytes::Of(1000 - 32));
}

TEST(CostModel, DataParallelismHidesItsAllReduceBehindTheBackwardPass) {
  // 2000 bytes of gradients take 2 ms; the backward pass of one sample 3 ms.
  const LayerCost hidden =
      SmallCosts().group(kFirstGroup).CostOfLayer(kDecoder, Degrees(1, 2), 2, 1);
  EXPECT_DOUBLE_EQ(hidden.forward.milliseconds(), 1.0);
  EXPECT_DOUBLE_EQ(hidden.backward.milliseconds(), 3.0);
  EXPECT_NEAR(hidden.gradient_sync.milliseconds(), 3.0 + 0.25 * 2.0 - 3.0, 1e-12);
}

TEST(CostModel, ShardingGathersEveryMicroBatchAndSplitsTheStates) {
  Strategy strategy = Degrees(1, 2);
  strategy.sharding_level = ShardingLevel::kParameters;
  const LayerCost cost = SmallCosts().group(kFirstGroup).CostOfLayer(kDecoder, strategy, 2, 1);
  // An all-gather of 2000 bytes takes 1 ms: as long as the forward pass.
  EXPECT_NEAR(cost.forward.milliseconds(), 1.0 + 0.25, 1e-12);
  // All-gather and reduce-scatter, 2 ms, beside 3 ms.
  EXPECT_NEAR(cost.backward.milliseconds(), 3.0 + 0.25 * 2.0, 1e-12);
  EXPECT_EQ(cost.gradient_sync, Seconds());
  EXPECT_EQ(cost.memory.parameters, Bytes::Of(1000));
  EXPECT_EQ(cost.memory.gradients, Bytes::Of(1000));
  EXPECT_EQ(cost.memory.optimizer_states, Bytes::Of(4000));
  EXPECT_EQ(cost.memory.master_parameters, Bytes::Of(2000));
  EXPECT_EQ(cost.transient(), Bytes::Of(3 * 2000));
}

TEST(CostModel, EachShardingLevelHoldsNoMoreThanTheOneBefore) {
  Strategy strategy = Degrees(1, 4);
  Bytes last = Bytes::Max();
  for (ShardingLevel level : {ShardingLevel::kNone, ShardingLevel::kOptimizer,
                              ShardingLevel::kGradients, ShardingLevel::kParameters}) {
    strategy.sharding_level = level;
    const Bytes states =
        SmallCosts().group(kFirstGroup).CostOfLayer(kDecoder, strategy, 4, 1).states();
    EXPECT_LT(states, last);
    last = states;
  }
}

TEST(CostModel, ShardedGradientsAreScatteredEveryMicroBatch) {
  Strategy strategy = Degrees(1, 2);
  strategy.sharding_level = ShardingLevel::kGradients;
  const LayerCost cost = SmallCosts().group(kFirstGroup).CostOfLayer(kDecoder, strategy, 2, 1);
  // A reduce-scatter of 2000 bytes takes 1 ms beside 3 ms; the gather 1 ms beside the
  // first forward pass of 1 ms.
  EXPECT_NEAR(cost.backward.milliseconds(), 3.0 + 0.25 * 1.0, 1e-12);
  EXPECT_NEAR(cost.gradient_sync.milliseconds(), 0.25 * 1.0, 1e-12);
}

// Milliseconds that a level adds to the step and to every micro-batch.
struct Added {
  double forward = 0.0;
  double backward = 0.0;
  double sync = 0.0;
};

Added AddedBy(ShardingLevel level, bool overlaps_sync, bool overlaps_gather,
              bool all_reduces = false, bool scatters_in_line = false) {
  PlanningRules rules;
  rules.runtime.scatters_gradients_in_line = scatters_in_line;
  rules.runtime.overlap_gradient_sync = overlaps_sync;
  rules.runtime.overlap_parameter_gather = overlaps_gather;
  rules.runtime.all_reduces_sharded_gradients = all_reduces;
  Strategy strategy = Degrees(1, 2);
  strategy.sharding_level = level;
  const CostModel costs = *CostModel::Create(SmallProblem({}, rules));
  const LayerCost cost = costs.group(kFirstGroup).CostOfLayer(kDecoder, strategy, 2, 1);
  // For one sample the passes take 1 and 3 ms.
  return {cost.forward.milliseconds() - 1.0, cost.backward.milliseconds() - 3.0,
          cost.gradient_sync.milliseconds()};
}

void ExpectAdded(const Added& added, double forward, double backward, double sync) {
  EXPECT_NEAR(added.forward, forward, 1e-9);
  EXPECT_NEAR(added.backward, backward, 1e-9);
  EXPECT_NEAR(added.sync, sync, 1e-9);
}

// An all-reduce of the 2000 bytes takes 2 ms, an all-gather or a reduce-scatter 1 ms.
// Overlap costs a quarter of the shorter.
TEST(CostModel, EveryShardingLevelOverlappedOrNotIsWorkedByHand) {
  using enum ShardingLevel;
  ExpectAdded(AddedBy(kNone, false, false), 0, 0, 2);
  ExpectAdded(AddedBy(kNone, true, true), 0, 0, 0.5);
  ExpectAdded(AddedBy(kOptimizer, false, false), 0, 0, 1 + 1);
  // The scatter beside the last backward pass, the gather beside the next forward pass.
  ExpectAdded(AddedBy(kOptimizer, true, true), 0, 0, 0.25 + 0.25);
  ExpectAdded(AddedBy(kOptimizer, true, false), 0, 0, 0.25 + 1);
  ExpectAdded(AddedBy(kOptimizer, false, true), 0, 0, 1 + 0.25);
  // DeepSpeed's first level all-reduces.
  ExpectAdded(AddedBy(kOptimizer, false, false, true), 0, 0, 2 + 1);
  ExpectAdded(AddedBy(kOptimizer, true, false, true), 0, 0, 0.5 + 1);
  ExpectAdded(AddedBy(kGradients, false, false), 0, 1, 1);
  ExpectAdded(AddedBy(kGradients, true, true), 0, 0.25, 0.25);
  ExpectAdded(AddedBy(kParameters, false, false), 1, 1 + 1, 0);
  ExpectAdded(AddedBy(kParameters, true, true), 0.25, 0.25 * 2, 0);
  ExpectAdded(AddedBy(kParameters, true, false), 1, 0.25 + 1, 0);
  ExpectAdded(AddedBy(kParameters, false, true), 0.25, 0.25 + 1, 0);
  // Scattered in line: parts of gradients wait, whole ones do not.
  ExpectAdded(AddedBy(kNone, true, true, false, true), 0, 0, 0.5);
  ExpectAdded(AddedBy(kOptimizer, true, true, false, true), 0, 0, 0.25 + 0.25);
  ExpectAdded(AddedBy(kGradients, true, true, false, true), 0, 1, 0.25);
  ExpectAdded(AddedBy(kParameters, true, true, false, true), 0.25, 0.25 + 1, 0);
}

// Only gradients whose optimizer states are sharded travel beside the backward pass, and in a
// pipeline none; parameters that are not sharded themselves are gathered in the step.
TEST(CostModel, EnginesOverlapShardedStatesOfOneStageAlone) {
  PlanningRules rules;
  rules.runtime.overlaps_only_sharded_states = true;
  rules.runtime.gathers_parameters_in_step = true;
  const CostModel costs = *CostModel::Create(SmallProblem({}, rules));
  const auto added = [&costs](ShardingLevel level, int pipeline_parallel_degree) -> Added {
    Strategy strategy = Degrees(1, 2);
    strategy.sharding_level = level;
    const LayerCost cost =
        costs.group(kFirstGroup).CostOfLayer(kDecoder, strategy, 2, pipeline_parallel_degree);
    return {cost.forward.milliseconds() - 1.0, cost.backward.milliseconds() - 3.0,
            cost.gradient_sync.milliseconds()};
  };
  using enum ShardingLevel;
  ExpectAdded(added(kNone, 1), 0, 0, 2);
  ExpectAdded(added(kOptimizer, 1), 0, 0, 0.25 + 1);
  ExpectAdded(added(kGradients, 1), 0, 0.25, 1);
  ExpectAdded(added(kParameters, 1), 0.25, 0.25 * 2, 0);
  ExpectAdded(added(kOptimizer, 2), 0, 0, 1 + 1);
}

// Without a wrapper that overlaps them, gradients of sharded states follow the last backward pass;
// others travel beside it.
TEST(CostModel, ShardedStatesCanWaitForTheirGradients) {
  PlanningRules rules;
  rules.runtime.all_reduces_sharded_gradients = true;
  rules.runtime.sums_sharded_states_at_end = true;
  const CostModel costs = *CostModel::Create(SmallProblem({}, rules));
  const auto added = [&costs](ShardingLevel level) -> Added {
    Strategy strategy = Degrees(1, 2);
    strategy.sharding_level = level;
    const LayerCost cost = costs.group(kFirstGroup).CostOfLayer(kDecoder, strategy, 2, 1);
    return {cost.forward.milliseconds() - 1.0, cost.backward.milliseconds() - 3.0,
            cost.gradient_sync.milliseconds()};
  };
  using enum ShardingLevel;
  ExpectAdded(added(kNone), 0, 0, 0.5);
  ExpectAdded(added(kOptimizer), 0, 0, 2 + 0.25);
  ExpectAdded(added(kGradients), 0, 0.25, 0.25);
}

TEST(CostModel, LayersSmallerThanABucketTravelWithOthers) {
  const auto sync = [](Bytes bucket) {
    PlanningRules rules;
    rules.runtime.overlap_gradient_sync = false;
    rules.runtime.gradient_bucket = bucket;
    // 1 ms whatever the size up to 1000 bytes, then 1 ms for each 1000.
    const CostModel costs = *CostModel::Create(SmallProblem(
        [](ProfileSnapshot::Content& content) {
          for (const double kilobytes : {2.0, 4.0, 8.0}) {
            content.collectives.push_back(
                {Collective::kAllReduce, 2, 1, Bytes::Of(static_cast<int64_t>(1000 * kilobytes)),
                 Seconds::Milliseconds(1 + kilobytes), Origin::kMeasured});
          }
        },
        rules));
    return costs.group(kFirstGroup)
        .CostOfLayer(kDecoder, Degrees(1, 2), 2, 1)
        .gradient_sync.milliseconds();
  };
  // Alone 2000 bytes take 3 ms; a quarter of a message of 8000 bytes takes 9 / 4 ms.
  EXPECT_NEAR(sync(Bytes::Of(1000)), 3.0, 1e-9);
  EXPECT_NEAR(sync(Bytes::Of(8000)), 9.0 / 4.0, 1e-9);
}

TEST(CostModel, OverlappedTensorParallelismIsWorkedByHand) {
  EstimatedOptions options;
  options.device_count = 64;
  options.global_batch_size = 64;
  for (const bool sequence_parallel : {false, true}) {
    options.rules.runtime = *FindRuntime("megatron-2021");
    const CostModel plain = *CostModel::Create(EstimatedProblem(options));
    options.rules.runtime.tensor_parallel_overlap = TensorParallelOverlap::kWeightGradients;
    const CostModel overlapped = *CostModel::Create(EstimatedProblem(options));
    Strategy strategy = Degrees(8, 8);
    strategy.sequence_parallel = sequence_parallel;
    const double total = plain.group(kFirstGroup)
                             .CostOfLayer(kDecoder, strategy, 8, 1)
                             .time[TimeItemKind::kTensorParallel]
                             .value();
    // Forward 2 all-reduces, backward 2; with sequence parallelism 4 and 6 halves.
    const double hidden = total * (sequence_parallel ? 4.0 / 10.0 : 2.0 / 4.0);
    const double shade = overlapped.group(kFirstGroup)
                             .layer_source(kDecoder)
                             .Passes(strategy, 1)
                             .hiding_backward.value() *
                         (sequence_parallel ? 2.0 : 1.0);
    ASSERT_GT(shade, 0.0);
    const double slowdown = Coefficients("ampere")[Coefficient::kContention];
    EXPECT_NEAR(overlapped.group(kFirstGroup)
                    .CostOfLayer(kDecoder, strategy, 8, 1)
                    .time[TimeItemKind::kTensorParallel]
                    .value(),
                total - hidden + std::max(shade, hidden) +
                    (slowdown - 1.0) * std::min(shade, hidden) - shade,
                1e-9 * total);
  }
}

TEST(CostModel, ExposesOfARingWhatAttentionDoesNotHide) {
  EstimatedOptions options;
  options.device_count = 64;
  options.global_batch_size = 64;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const Coefficients coefficients("ampere");
  const FabricTime fabric(problem.hardware(kFirstGroup)->fabric, coefficients, 8);
  for (const int context : {2, 8}) {
    Strategy strategy = Degrees(4, 16 / context);
    strategy.context_parallel_degree = context;
    const LayerPasses passes = costs.group(kFirstGroup).layer_source(kDecoder).Passes(strategy, 1);
    // Keys and values of 24 heads of 128; the ring of 8 ranks, 4 apart, leaves the node.
    const double bytes = 2.0 * 2048 / context * 24 * 128 * 2;
    const Seconds hop = fabric.Time(Collective::kSendReceive, {context, 4}, bytes);
    const double hops = context - 1;
    const double slowdown = coefficients[Coefficient::kContention];
    const auto exposed = [&](Seconds attention, Seconds moving) {
      const Seconds beside = attention * (hops / context);
      return OverlappedTime(beside, moving, slowdown) - beside;
    };
    const Seconds expected = exposed(passes.forward_attention, hop * hops) +
                             exposed(passes.backward_attention, hop * (2 * hops));
    const LayerCost cost =
        costs.group(kFirstGroup).CostOfLayer(kDecoder, strategy, 16 / context, 1);
    EXPECT_NEAR(cost.time[TimeItemKind::kContextParallel] / expected, 1.0, 1e-9);
    // Those that share a sample hold the same parameters.
    strategy.data_parallel_degree = 1;
    strategy.context_parallel_degree = 16;
    EXPECT_GT(costs.group(kFirstGroup).CostOfLayer(kDecoder, strategy, 1, 1).gradient_sync,
              Seconds());
  }
}

TEST(CostModel, MakesExpertsEqualOnFewerRanks) {
  EstimatedOptions options;
  options.device_count = 64;
  options.global_batch_size = 64;
  options.expert_count = 8;
  options.rules.runtime.overlap_gradient_sync = false;
  options.rules.runtime.gradient_bucket = Bytes();
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const FabricTime fabric(problem.hardware(kFirstGroup)->fabric, Coefficients("ampere"), 8);
  Strategy strategy = Degrees(4, 16);
  strategy.expert_parallel_degree = 8;
  const LayerFootprint footprint =
      costs.group(kFirstGroup).layer_source(kDecoder).Footprint(strategy, 1);
  const auto bytes = [](int64_t count) { return 2.0 * static_cast<double>(count); };
  // One expert a rank: the next rank with the same one is 8 x 4 ranks on.
  const Seconds expected =
      fabric.Time(Collective::kAllReduce, {16, 4}, bytes(footprint.parameter_count)) +
      fabric.Time(Collective::kAllReduce, {2, 32}, bytes(footprint.expert_parameter_count));
  const LayerCost cost = costs.group(kFirstGroup).CostOfLayer(kDecoder, strategy, 16, 1);
  EXPECT_NEAR(cost.gradient_sync / expected, 1.0, 1e-9);
  // Two of eight experts for each of the tokens of a sample, there and back, both ways.
  const Seconds exchange = fabric.Time(Collective::kAllToAll, {8, 4}, 2.0 * 2048 * 12288 * 2);
  EXPECT_NEAR(cost.time[TimeItemKind::kExpertParallel] / (exchange * 4.0), 1.0, 1e-9);
}

TEST(CostModel, MakesTiedTablesEqualOnBothStages) {
  EstimatedOptions options;
  options.device_count = 64;
  options.global_batch_size = 64;
  for (const bool tied : {false, true}) {
    options.tied_embedding = tied;
    const CostModel costs = *CostModel::Create(EstimatedProblem(options));
    for (const int table : {0, 2}) {
      const Seconds one =
          costs.group(kFirstGroup).CostOfLayer(table, Degrees(8, 1), 1, 1).gradient_sync;
      const Seconds several =
          costs.group(kFirstGroup).CostOfLayer(table, Degrees(8, 1), 1, 8).gradient_sync;
      EXPECT_EQ(one, Seconds());
      EXPECT_EQ(several > Seconds(), tied) << table;
    }
  }
}

TEST(SendTime, IsThatBetweenNodesWhereSmallStagesMeetTheEdge) {
  EstimatedOptions options;
  options.device_count = 64;
  options.global_batch_size = 64;
  const CostModel costs = *CostModel::Create(EstimatedProblem(options));
  const Strategy strategy = Degrees(4, 1);
  const auto send = [&](bool leaves_node) {
    return costs.SendTime(kFirstGroup, kFirstGroup, kDecoder, strategy, strategy, 4, leaves_node,
                          1);
  };
  EXPECT_GT(send(true), send(false));
  EXPECT_EQ(send(true),
            costs.SendTime(kFirstGroup, kFirstGroup, kDecoder, strategy, strategy, 8, true, 1));
}

TEST(CostModel, TimeItemsAddUpToForwardAndBackward) {
  for (int tensor : {1, 2, 4}) {
    for (ShardingLevel level : {ShardingLevel::kNone, ShardingLevel::kParameters}) {
      for (RecomputeLevel recompute : {RecomputeLevel::kNone, RecomputeLevel::kFull}) {
        Strategy strategy = Degrees(tensor, 4 / tensor);
        strategy.sharding_level = level;
        strategy.recompute_level = recompute;
        const LayerCost cost =
            SmallCosts().group(kFirstGroup).CostOfLayer(kDecoder, strategy, 8, 1);
        EXPECT_NEAR(cost.time.Total().value(), (cost.forward + cost.backward).value(), 1e-15);
      }
    }
  }
}

TEST(CostModel, FasterLinksNeverSlowAnyLayer) {
  const CostModel slow = SmallCosts();
  const CostModel fast = *CostModel::Create(SmallProblem([](ProfileSnapshot::Content& content) {
    for (CollectivePoint& point : content.collectives) point.duration = point.duration * 0.5;
  }));
  for (int tensor : {1, 2, 4}) {
    for (ShardingLevel level : {ShardingLevel::kNone, ShardingLevel::kParameters}) {
      Strategy strategy = Degrees(tensor, 4 / tensor);
      strategy.sharding_level = level;
      const LayerCost before = slow.group(kFirstGroup).CostOfLayer(kDecoder, strategy, 8, 1);
      const LayerCost after = fast.group(kFirstGroup).CostOfLayer(kDecoder, strategy, 8, 1);
      EXPECT_LE(after.forward, before.forward);
      EXPECT_LE(after.backward, before.backward);
      EXPECT_LE(after.gradient_sync, before.gradient_sync);
    }
  }
}

TEST(TransitionTime, IsFreeBetweenEqualLayoutsAndPaidForWiderGroups) {
  const CostModel costs = SmallCosts();
  Strategy sharded = Degrees(2, 2);
  sharded.sharding_level = ShardingLevel::kParameters;
  EXPECT_EQ(costs.group(kFirstGroup).TransitionTime(kDecoder, Degrees(2, 2), sharded, 4),
            Seconds());
  // Widening and narrowing between degrees 1 and 2: one all-gather of 2 samples.
  const double gather = 0.5 * 2 * 16 * 1e-3;
  EXPECT_NEAR(costs.group(kFirstGroup)
                  .TransitionTime(kDecoder, Degrees(1, 4), Degrees(2, 2), 4)
                  .milliseconds(),
              gather, 1e-12);
  EXPECT_NEAR(costs.group(kFirstGroup)
                  .TransitionTime(kDecoder, Degrees(2, 2), Degrees(1, 4), 4)
                  .milliseconds(),
              gather, 1e-12);
  Strategy strided = Degrees(2, 2);
  strided.rank_order = RankOrder::kDataInnermost;
  EXPECT_NEAR(
      costs.group(kFirstGroup).TransitionTime(kDecoder, Degrees(2, 2), strided, 4).milliseconds(),
      2 * gather, 1e-12);
}

}  // namespace
}  // namespace parplan
