// Ulysses by hand, and against rings.

#include <cstdint>
#include <memory>

#include <gtest/gtest.h>

#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/fabric_time.h"
#include "planner/cost/layer_operations.h"
#include "tests/planner/cost/elementwise_bytes.h"
#include "tests/planner/cost/hardware_of_tests.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

constexpr int kDecoder = 1;

EstimatedOptions OneNode() {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = 2;
  options.hidden_size = 4096;
  options.attention_head_count = 32;
  options.global_batch_size = 8;
  return options;
}

Strategy Shared(int tensor, int context, int data, ContextKind kind) {
  Strategy strategy;
  strategy.tensor_parallel_degree = tensor;
  strategy.context_parallel_degree = context;
  strategy.data_parallel_degree = data;
  strategy.context_kind = kind;
  strategy.sequence_parallel = tensor > 1;
  return strategy;
}

Seconds ContextTime(const CostModel& costs, const Strategy& strategy, int64_t micro_batch_size) {
  return costs.group(kFirstGroup)
      .CostOfLayer(kDecoder, strategy, micro_batch_size, 1)
      .time[TimeItemKind::kContextParallel];
}

// Made from the problem's coefficients, as in the cost model.
FabricTime FabricOf(const PlanningProblem& problem) {
  return FabricTime(
      problem.hardware(kFirstGroup)->fabric,
      problem.calibration().Resolve(problem.hardware(kFirstGroup)->device.device_family,
                                    problem.topology().cluster()),
      problem.node_group(kFirstGroup).devices_per_node);
}

TEST(Ulysses, TradesTokensForHeadsFourTimesEachWay) {
  const PlanningProblem problem = EstimatedProblem(OneNode());
  const CostModel costs = *CostModel::Create(problem);
  // 2 samples of 2,048 / 4 tokens of 4,096 / 2 elements of 2 bytes.
  const Seconds one = FabricOf(problem).Time(Collective::kAllToAll, {4, 2}, 2.0 * 512 * 2048 * 2);
  EXPECT_NEAR(ContextTime(costs, Shared(2, 4, 1, ContextKind::kUlysses), 2) / one, 8.0, 1e-9);
}

TEST(ContextGather, GathersTwiceAndScattersOnceWithNothingHidden) {
  const PlanningProblem problem = EstimatedProblem(OneNode());
  const CostModel costs = *CostModel::Create(problem);
  // Keys and values alike: 2 samples of all 2,048 tokens of 4,096 / 2 elements of 2 bytes.
  const double all = 2.0 * 2048 * 2048 * 2;
  const Seconds gather = FabricOf(problem).Time(Collective::kAllGather, {4, 2}, all);
  const Seconds scatter = FabricOf(problem).Time(Collective::kReduceScatter, {4, 2}, all);
  EXPECT_NEAR(ContextTime(costs, Shared(2, 4, 1, ContextKind::kAllGather), 2) /
                  (gather * 4.0 + scatter * 2.0),
              1.0, 1e-9);
}

TEST(ContextGather, KeepsWhatARankHasAndNeedsAllKeysInTheBackwardPass) {
  const CostModel costs = *CostModel::Create(EstimatedProblem(OneNode()));
  const auto cost = [&](ContextKind kind) {
    return costs.group(kFirstGroup).CostOfLayer(kDecoder, Shared(1, 8, 1, kind), 1, 1);
  };
  const LayerCost gathered = cost(ContextKind::kAllGather);
  const LayerCost ring = cost(ContextKind::kRing);
  EXPECT_EQ(gathered.kept_per_micro_batch(), ring.kept_per_micro_batch());
  EXPECT_GT(gathered.transient(), ring.transient());
  // Keys, values and both gradients of 2,048 tokens, less what the feed-forward part has freed.
  EXPECT_LE(gathered.transient() - ring.transient(), Bytes::Of(4LL * 2048 * 4096 * 2));
}

TEST(ContextExchange, ExposesAllToAllsBesideARingOfGroups) {
  const PlanningProblem problem = EstimatedProblem(OneNode());
  const CostModel costs = *CostModel::Create(problem);
  Strategy strategy = Shared(1, 8, 1, ContextKind::kRing);
  strategy.context_exchange_degree = 2;
  // 256 tokens of 4,096 elements of 2 bytes, exchanged in pairs; four pairs pass on keys and
  // values.
  const double bytes = 256.0 * 4096 * 2;
  const Seconds exchanges = FabricOf(problem).Time(Collective::kAllToAll, {2, 1}, bytes) * 8.0;
  const Seconds hops = FabricOf(problem).Time(Collective::kSendReceive, {4, 2}, bytes * 2.0) * 9.0;
  EXPECT_GE(ContextTime(costs, strategy, 1) / exchanges, 1.0 - 1e-9);
  EXPECT_LT(ContextTime(costs, strategy, 1), exchanges + hops);
}

// A ring of four pairs: keys and values of two pieces, of half the heads, in three hops, and as
// many hops with their gradients backward. Each pass has four exchanges in pairs.
TEST(ContextExchange, HasTheMessagesOfBothKinds) {
  const PlanningProblem problem = EstimatedProblem(OneNode());
  const CostModel costs = *CostModel::Create(problem);
  const GroupCosts& group = costs.group(kFirstGroup);
  Strategy strategy = Shared(1, 8, 1, ContextKind::kRing);
  strategy.context_exchange_degree = 2;
  const PassCollectives calls = group.traffic().ContextCollectives(
      group.layer_source(kDecoder).definition(), strategy, /*samples=*/1.0);
  const auto count = [](const CollectiveList& list, Collective kind, GroupShape shape,
                        double bytes) {
    double sum = 0.0;
    for (const LayerCollective& call : list) {
      if (call.collective == kind && call.group == shape && call.bytes == bytes) sum += call.count;
    }
    return sum;
  };
  const double bytes = 256.0 * 4096 * 2;
  EXPECT_EQ(count(calls.forward, Collective::kSendReceive, {4, 2}, 2.0 * bytes), 3.0);
  EXPECT_EQ(count(calls.backward, Collective::kSendReceive, {4, 2}, 2.0 * bytes), 6.0);
  EXPECT_EQ(count(calls.forward, Collective::kAllToAll, {2, 1}, bytes), 4.0);
  EXPECT_EQ(count(calls.backward, Collective::kAllToAll, {2, 1}, bytes), 4.0);
}

TEST(CheckPlanStructure, KnowsTheRingsOfExchanges) {
  EstimatedOptions options = OneNode();
  options.attention_head_count = 8;
  options.rules.max_tensor_parallel_degree = 4;
  const PlanningProblem problem = EstimatedProblem(options);
  const auto check = [&](int tensor, int context, int exchange, ContextKind kind) {
    Strategy strategy = Shared(tensor, context, 8 / tensor / context, kind);
    strategy.context_exchange_degree = exchange;
    return CheckPlanStructure(problem, PlanOf(problem, {.strategy = strategy}));
  };
  EXPECT_TRUE(check(2, 4, 2, ContextKind::kRing).ok());
  EXPECT_TRUE(check(2, 4, 1, ContextKind::kAllGather).ok());
  for (const int exchange : {0, 3, 4, 8}) {
    EXPECT_THAT(
        check(2, 4, exchange, ContextKind::kRing),
        StatusIs(absl::StatusCode::kInternal, testing::HasSubstr("context_exchange_degree")));
  }
  EXPECT_THAT(check(2, 4, 2, ContextKind::kUlysses),
              StatusIs(absl::StatusCode::kInternal, testing::HasSubstr("context_exchange_degree")));
  EXPECT_THAT(
      check(8, 1, 1, ContextKind::kAllGather),
      StatusIs(absl::StatusCode::kInternal, testing::HasSubstr("context_parallel_degree 1")));
}

TEST(Ulysses, RepeatsTheForwardOnesInFullRecomputationOnly) {
  EstimatedOptions options = OneNode();
  options.rules.runtime.attention_kernel = AttentionKernel::kUnfused;
  const CostModel costs = *CostModel::Create(EstimatedProblem(options));
  Strategy strategy = Shared(1, 8, 1, ContextKind::kUlysses);
  const Seconds plain = ContextTime(costs, strategy, 1);
  strategy.recompute_level = RecomputeLevel::kSelective;
  EXPECT_GT(
      costs.group(kFirstGroup).CostOfLayer(kDecoder, strategy, 1, 1).time[TimeItemKind::kRecompute],
      Seconds());
  EXPECT_EQ(ContextTime(costs, strategy, 1), plain);
  strategy.recompute_level = RecomputeLevel::kFull;
  EXPECT_NEAR(ContextTime(costs, strategy, 1) / plain, 1.5, 1e-12);
}

TEST(Ulysses, SendsLessWithFewerKeyAndValueHeads) {
  // The same layer with a quarter of the heads of keys and values: 2 + 2 / 4 instead of 4.
  const LayerDefinition whole = TestDecoder(4096, 32, 2048);
  LayerDefinition raw = whole;
  raw.key_value_head_count = 8;
  raw.parameter_count = 0;
  const LayerDefinition grouped = *LayerDefinition::Create(raw, "grouped");
  const auto problem_of = [](const LayerDefinition& layer) {
    const EstimatedOptions options = OneNode();
    const PlanningProblem like = EstimatedProblem(options);
    Knowledge knowledge;
    knowledge.groups.emplace_back().hardware = std::make_shared<const Hardware>(EightA100Nodes());
    return *PlanningProblem::Create(
        std::make_shared<const ModelSpec>(
            *ModelSpec::Create("one", {layer}, {{0, 2}}, Precision::kBf16, Optimizer::kAdam)),
        std::make_shared<const Topology>(like.topology()), std::move(knowledge), 8, options.rules);
  };
  const auto time_of = [&](const LayerDefinition& layer) {
    const PlanningProblem problem = problem_of(layer);
    return CostModel::Create(problem)
        ->group(kFirstGroup)
        .CostOfLayer(0, Shared(1, 8, 1, ContextKind::kUlysses), 1, 1)
        .time[TimeItemKind::kContextParallel];
  };
  const PlanningProblem problem = problem_of(whole);
  const auto one = [&](double heads) {
    return FabricOf(problem).Time(Collective::kAllToAll, {8, 1}, 256.0 * heads * 128 * 2);
  };
  EXPECT_NEAR(time_of(whole) / one(32), 8.0, 1e-9);
  EXPECT_NEAR(time_of(grouped) / (one(32) * 4.0 + one(8) * 4.0), 1.0, 1e-9);
}

TEST(Ulysses, DoesAsManyOperationsAsARingInFewerKernels) {
  const LayerDefinition layer = TestDecoder(4096, 32, 2048);
  for (const AttentionKernel kernel : {AttentionKernel::kFlash, AttentionKernel::kUnfused}) {
    RuntimeTraits runtime;
    runtime.attention_kernel = kernel;
    const auto list = [&](ContextKind kind) {
      LayerOperations operations;
      ListOperations(
          layer, Precision::kBf16, runtime,
          {.tensor_parallel_degree = 2, .context_parallel_degree = 4, .context_kind = kind}, 2.0,
          operations);
      return operations;
    };
    const LayerOperations ring = list(ContextKind::kRing);
    const LayerOperations ulysses = list(ContextKind::kUlysses);
    EXPECT_DOUBLE_EQ(ulysses.forward.Flops(), ring.forward.Flops());
    EXPECT_DOUBLE_EQ(ulysses.backward.Flops(), ring.backward.Flops());
    EXPECT_DOUBLE_EQ(ulysses.selective_recompute.Flops(), ring.selective_recompute.Flops());
    EXPECT_DOUBLE_EQ(ElementwiseBytes(ulysses.forward), ElementwiseBytes(ring.forward));
    EXPECT_DOUBLE_EQ(ElementwiseBytes(ulysses.backward), ElementwiseBytes(ring.backward));
    // Four all-to-alls; one fused kernel instead of four, forward, and three times backward.
    const int fewer = kernel == AttentionKernel::kFlash ? 3 : 0;
    EXPECT_EQ(ulysses.forward.LaunchCount(), ring.forward.LaunchCount() + 4 - fewer);
    EXPECT_EQ(ulysses.backward.LaunchCount(), ring.backward.LaunchCount() + 4 - 3 * fewer);
  }
}

TEST(Ulysses, HoldsWhatARingHolds) {
  const CostModel costs = *CostModel::Create(EstimatedProblem(OneNode()));
  for (const ShardingLevel sharding : {ShardingLevel::kNone, ShardingLevel::kParameters}) {
    Strategy ring = Shared(2, 2, 2, ContextKind::kRing);
    Strategy ulysses = Shared(2, 2, 2, ContextKind::kUlysses);
    ring.sharding_level = ulysses.sharding_level = sharding;
    const LayerCost a = costs.group(kFirstGroup).CostOfLayer(kDecoder, ring, 4, 1);
    const LayerCost b = costs.group(kFirstGroup).CostOfLayer(kDecoder, ulysses, 4, 1);
    EXPECT_EQ(a.states(), b.states());
    EXPECT_EQ(a.kept_per_micro_batch(), b.kept_per_micro_batch());
    EXPECT_EQ(a.transient(), b.transient());
    EXPECT_EQ(a.gradient_sync == Seconds(), b.gradient_sync == Seconds());
  }
}

TEST(Ulysses, CostsEndsNothingMoreThanARing) {
  const CostModel costs = *CostModel::Create(EstimatedProblem(OneNode()));
  for (const int end : {0, 2}) {
    const LayerCost a =
        costs.group(kFirstGroup).CostOfLayer(end, Shared(1, 4, 2, ContextKind::kRing), 4, 1);
    const LayerCost b =
        costs.group(kFirstGroup).CostOfLayer(end, Shared(1, 4, 2, ContextKind::kUlysses), 4, 1);
    EXPECT_EQ(a.forward, b.forward);
    EXPECT_EQ(a.backward, b.backward);
    EXPECT_EQ(a.time[TimeItemKind::kContextParallel], Seconds());
  }
}

TEST(Ulysses, TakesLongerOverSlowerLinks) {
  EstimatedOptions options = OneNode();
  options.device_count = 16;
  const Strategy across = Shared(1, 16, 1, ContextKind::kUlysses);
  const Strategy within = Shared(1, 8, 2, ContextKind::kUlysses);
  const CostModel costs = *CostModel::Create(EstimatedProblem(options));
  options.network_speed = 0.5;
  const CostModel slower = *CostModel::Create(EstimatedProblem(options));
  EXPECT_GT(ContextTime(slower, across, 2), ContextTime(costs, across, 2));
  EXPECT_EQ(ContextTime(slower, within, 2), ContextTime(costs, within, 2));
}

// A plan of one stage with one strategy for all layers, in micro-batches of all eight samples.
absl::Status Check(const PlanningProblem& problem, const Strategy& strategy) {
  return CheckPlanStructure(problem, PlanOf(problem, {.strategy = strategy}));
}

TEST(CheckPlanStructure, KnowsWhatUlyssesDivides) {
  EstimatedOptions options = OneNode();
  options.attention_head_count = 8;
  options.sequence_length = 1028;  // 4 times 257
  options.rules.max_tensor_parallel_degree = 4;
  const PlanningProblem problem = EstimatedProblem(options);
  EXPECT_TRUE(Check(problem, Shared(2, 4, 1, ContextKind::kUlysses)).ok());
  EXPECT_TRUE(Check(problem, Shared(2, 2, 2, ContextKind::kRing)).ok());
  EXPECT_THAT(Check(problem, Shared(2, 4, 1, ContextKind::kRing)),
              StatusIs(absl::StatusCode::kInternal, testing::HasSubstr("sequence_length")));
  EXPECT_THAT(Check(problem, Shared(1, 8, 1, ContextKind::kUlysses)),
              StatusIs(absl::StatusCode::kInternal, testing::HasSubstr("sequence_length")));
  EXPECT_THAT(
      Check(problem, Shared(1, 1, 8, ContextKind::kUlysses)),
      StatusIs(absl::StatusCode::kInternal, testing::HasSubstr("context_parallel_degree 1")));
  options.attention_head_count = 4;
  EXPECT_THAT(Check(EstimatedProblem(options), Shared(2, 4, 1, ContextKind::kUlysses)),
              StatusIs(absl::StatusCode::kInternal, testing::HasSubstr("heads")));
}

TEST(TransitionTime, ExchangesTokensForSamples) {
  const PlanningProblem problem = EstimatedProblem(OneNode());
  const CostModel costs = *CostModel::Create(problem);
  const Strategy samples = Shared(1, 1, 8, ContextKind::kRing);
  const Strategy tokens = Shared(1, 8, 1, ContextKind::kRing);
  // One sample's worth of tokens a rank, forward and backward.
  const Seconds one = FabricOf(problem).Time(Collective::kAllToAll, {8, 1}, 8.0 * 256 * 4096 * 2);
  EXPECT_NEAR(costs.group(kFirstGroup).TransitionTime(kDecoder, samples, tokens, 8) / one, 2.0,
              1e-9);
  EXPECT_NEAR(costs.group(kFirstGroup).TransitionTime(kDecoder, tokens, samples, 8) / one, 2.0,
              1e-9);
}

// Rings give a rank the n-th piece from either end, Ulysses one piece in a row.
TEST(TransitionTime, RegroupsBetweenRingsAndUlysses) {
  const PlanningProblem problem = EstimatedProblem(OneNode());
  const CostModel costs = *CostModel::Create(problem);
  const Strategy ring = Shared(1, 8, 1, ContextKind::kRing);
  const Strategy ulysses = Shared(1, 8, 1, ContextKind::kUlysses);
  // Together on the one side, apart on the other, forward and backward.
  const Seconds one = FabricOf(problem).Time(Collective::kAllToAll, {8, 1}, 8.0 * 256 * 4096 * 2);
  EXPECT_NEAR(costs.group(kFirstGroup).TransitionTime(kDecoder, ring, ulysses, 8) / one, 4.0, 1e-9);
  EXPECT_NEAR(costs.group(kFirstGroup).TransitionTime(kDecoder, ulysses, ring, 8) / one, 4.0, 1e-9);
  EXPECT_EQ(costs.group(kFirstGroup).TransitionTime(kDecoder, ulysses, ulysses, 8), Seconds());
  // Half of it on the way to another stage.
  EXPECT_NEAR((costs.SendTime(kFirstGroup, kFirstGroup, kDecoder, ring, ulysses, 8, false, 8) -
               costs.SendTime(kFirstGroup, kFirstGroup, kDecoder, ring, ring, 8, false, 8)) /
                  one,
              2.0, 1e-9);
}

}  // namespace
}  // namespace parplan
