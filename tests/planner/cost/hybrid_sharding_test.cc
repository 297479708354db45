// What ranks hold and exchange if groups of them share states (`Strategy::sharding_degree`).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/cost/rank_memory.h"
#include "planner/cost/step_collectives.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

constexpr int kHybridDecoder = 1;
constexpr ShardingLevel kShardingLevels[] = {ShardingLevel::kOptimizer, ShardingLevel::kGradients,
                                             ShardingLevel::kParameters};

// Four nodes of eight A100 with small layers, of eight experts if there are any.
PlanningProblem FourNodes(const RuntimeTraits& runtime, int expert_count = 0,
                          double network_speed = 1.0) {
  EstimatedOptions options;
  options.device_count = 32;
  options.decoder_count = 2;
  options.hidden_size = 1024;
  options.attention_head_count = 16;
  options.sequence_length = 1024;
  options.tied_embedding = false;
  options.expert_count = expert_count;
  options.global_batch_size = 64;
  options.network_speed = network_speed;
  options.rules.runtime = runtime;
  return EstimatedProblem(options);
}

Strategy Hybrid(int tensor, int data, ShardingLevel level, int degree) {
  Strategy strategy{.tensor_parallel_degree = tensor, .data_parallel_degree = data};
  strategy.set_sharding({level, degree});
  return strategy;
}

struct Call {
  Collective collective;
  int participant_count;
  int rank_stride;
  double bytes;
  friend bool operator==(const Call&, const Call&) = default;
};
void PrintTo(const Call& call, std::ostream* out) {
  *out << CollectiveName(call.collective) << " of " << call.participant_count << " ranks, stride "
       << call.rank_stride << ", " << call.bytes << " bytes";
}

std::vector<Call> CallsOf(const CollectiveList& list) {
  std::vector<Call> calls;
  for (const LayerCollective& one : list) {
    EXPECT_EQ(one.count, 1.0);
    calls.push_back(
        {one.collective, one.group.participant_count, one.group.rank_stride, one.bytes});
  }
  return calls;
}

// Tensor degree 2 and 16 replicas, whose groups of 4 are the ranks 0, 2, 4, 6 and so on: a rank
// gathers and scatters the whole layer within them, and sums a quarter of its gradients with ranks
// 8 further on. Parameters travel in 16 bits, gradients in 32.
TEST(HybridSharding, ScattersWithinGroupsAndSumsShardsBetweenThem) {
  const CostModel costs = Valid(CostModel::Create(FourNodes(*FindRuntime("torch"))));
  const GroupCosts& group = costs.group(kFirstGroup);
  for (const ShardingLevel level : kShardingLevels) {
    for (const RankOrder order : {RankOrder::kTensorInnermost, RankOrder::kDataInnermost}) {
      Strategy strategy = Hybrid(2, 16, level, 4);
      strategy.rank_order = order;
      const int stride = order == RankOrder::kTensorInnermost ? 2 : 1;
      const LayerFootprint footprint = group.layer_source(kHybridDecoder).Footprint(strategy, 1);
      const auto count = static_cast<double>(footprint.parameter_count);
      const DataCollectiveLists calls =
          group.traffic().DataCollectives(footprint, strategy, strategy.sharding());
      EXPECT_THAT(CallsOf(calls.forward),
                  testing::ElementsAre(Call{Collective::kAllGather, 4, stride, 2 * count}));
      EXPECT_THAT(CallsOf(calls.backward),
                  testing::ElementsAre(Call{Collective::kReduceScatter, 4, stride, 4 * count}));
      EXPECT_THAT(CallsOf(calls.between_groups),
                  testing::ElementsAre(Call{Collective::kAllReduce, 4, 4 * stride, count}));
    }
  }
}

// Without a degree there is one group, and nothing between groups.
TEST(HybridSharding, WithOneGroupIsUsualSharding) {
  const CostModel costs = Valid(CostModel::Create(FourNodes(*FindRuntime("torch"))));
  const GroupCosts& group = costs.group(kFirstGroup);
  const Strategy strategy = Hybrid(1, 32, ShardingLevel::kParameters, 0);
  EXPECT_EQ(strategy.shard_count(), 32);
  EXPECT_EQ(strategy.shard_group_count(), 1);
  const LayerFootprint footprint = group.layer_source(kHybridDecoder).Footprint(strategy, 1);
  const DataCollectiveLists calls =
      group.traffic().DataCollectives(footprint, strategy, strategy.sharding());
  EXPECT_THAT(CallsOf(calls.between_groups), testing::IsEmpty());
  EXPECT_EQ(CallsOf(calls.backward).front().participant_count, 32);
}

// Eight experts over 2 of 16 neighbours: a group of 8 has each expert 4 times, on every second of
// its ranks, and with groups of 2 no two ranks of a group have the same.
TEST(HybridSharding, SharesExpertsAmongTheRanksOfAGroupThatHaveThem) {
  const CostModel costs = Valid(CostModel::Create(FourNodes(*FindRuntime("megatron-core"), 8)));
  const GroupCosts& group = costs.group(kFirstGroup);
  for (const auto& [degree, shards] : {std::pair(8, 4), std::pair(2, 1)}) {
    Strategy strategy = Hybrid(1, 32, ShardingLevel::kOptimizer, degree);
    strategy.expert_parallel_degree = 2;
    EXPECT_TRUE(strategy.has_experts_in_groups());
    EXPECT_EQ(strategy.expert_shard_count(), shards);
    const LayerFootprint footprint = group.layer_source(kHybridDecoder).Footprint(strategy, 1);
    const DataCollectiveLists calls =
        group.traffic().DataCollectives(footprint, strategy, strategy.sharding());
    std::vector<std::pair<int, int>> gathers, sums;
    for (const LayerCollective& one : calls.forward) {
      gathers.emplace_back(one.group.participant_count, one.group.rank_stride);
    }
    for (const LayerCollective& one : calls.between_groups) {
      sums.emplace_back(one.group.participant_count, one.group.rank_stride);
    }
    std::vector<std::pair<int, int>> expected = {{degree, 1}};
    if (shards > 1) expected.emplace_back(shards, 2);
    EXPECT_EQ(gathers, expected);
    EXPECT_THAT(sums, testing::Each(std::pair(32 / degree, degree)));
    EXPECT_EQ(sums.size(), 2);
  }
  Strategy parted = Hybrid(1, 32, ShardingLevel::kOptimizer, 2);
  parted.expert_parallel_degree = 4;
  EXPECT_FALSE(parted.has_experts_in_groups());
}

// A law: the smaller the group, the more a rank holds of each state, and the less it gathers for.
TEST(HybridSharding, SmallerGroupsHoldMoreAndGatherFaster) {
  for (const char* const name : {"torch", "torchtitan", "megatron-core", "deepspeed", "parplan"}) {
    for (const int expert_count : {0, 8}) {
      const CostModel costs = Valid(CostModel::Create(FourNodes(*FindRuntime(name), expert_count)));
      const GroupCosts& group = costs.group(kFirstGroup);
      for (const ShardingLevel level : kShardingLevels) {
        SCOPED_TRACE(testing::Message() << name << ", " << expert_count << " experts, level "
                                        << static_cast<int>(level));
        LayerCost larger = group.CostOfLayer(kHybridDecoder, Hybrid(1, 32, level, 0), 64, 1);
        for (const int degree : {16, 8, 4, 2}) {
          const Strategy strategy = Hybrid(1, 32, level, degree);
          const LayerCost cost = group.CostOfLayer(kHybridDecoder, strategy, 64, 1);
          EXPECT_GT(cost.states(), larger.states());
          EXPECT_GE(cost.memory.parameters, larger.memory.parameters);
          EXPECT_GE(cost.memory.gradients, larger.memory.gradients);
          EXPECT_GT(cost.memory.optimizer_states, larger.memory.optimizer_states);
          EXPECT_GE(cost.memory.step, larger.memory.step);
          EXPECT_EQ(cost.memory.kept, larger.memory.kept);
          EXPECT_EQ(cost.memory.gathered, larger.memory.gathered);
          EXPECT_GE(cost.optimizer_step, larger.optimizer_step);
          const LayerFootprint footprint =
              group.layer_source(kHybridDecoder).Footprint(strategy, 1);
          EXPECT_LE(group.traffic().DataParallel(footprint, strategy, {level, degree}).forward,
                    group.traffic()
                        .DataParallel(footprint, strategy,
                                      degree == 16 ? Sharding(level) : Sharding(level, 2 * degree))
                        .forward);
          larger = cost;
        }
      }
    }
  }
}

// A law: with groups within nodes a slower network makes gathering no slower.
TEST(HybridSharding, GathersAtTheRateOfTheNodeIfGroupsStayInsideIt) {
  const auto gather = [](double network_speed, int degree) {
    const CostModel costs =
        Valid(CostModel::Create(FourNodes(*FindRuntime("torch"), 0, network_speed)));
    const GroupCosts& group = costs.group(kFirstGroup);
    const Strategy strategy = Hybrid(1, 32, ShardingLevel::kParameters, degree);
    const LayerFootprint footprint = group.layer_source(kHybridDecoder).Footprint(strategy, 1);
    return group.traffic().DataParallel(footprint, strategy, strategy.sharding()).forward;
  };
  EXPECT_EQ(gather(0.01, 8), gather(1.0, 8));
  EXPECT_GT(gather(0.01, 16), gather(1.0, 16));
  EXPECT_LT(gather(0.01, 8) * 20.0, gather(0.01, 0));
}

// Trainers on FSDP sum between groups in each backward pass. `parplan.torch` and MiCS do it in the
// last one of a step: what these pay once, the others pay in each.
TEST(HybridSharding, IsSummedBetweenGroupsOnceAStepOrInEachPass) {
  RuntimeTraits once = *FindRuntime("torch");
  once.overlap_gradient_sync = false;
  once.overlap_parameter_gather = false;
  ASSERT_FALSE(once.sums_shards_each_pass);
  RuntimeTraits each = once;
  each.sums_shards_each_pass = true;
  for (const ShardingLevel level : kShardingLevels) {
    const auto cost = [&](const RuntimeTraits& runtime) {
      const CostModel costs = Valid(CostModel::Create(FourNodes(runtime)));
      return costs.group(kFirstGroup).CostOfLayer(kHybridDecoder, Hybrid(1, 32, level, 8), 64, 1);
    };
    const CostModel costs = Valid(CostModel::Create(FourNodes(once)));
    const GroupCosts& group = costs.group(kFirstGroup);
    const Strategy strategy = Hybrid(1, 32, level, 8);
    const double between =
        group.traffic()
            .DataParallel(group.layer_source(kHybridDecoder).Footprint(strategy, 1), strategy,
                          strategy.sharding())
            .between_groups.value();
    EXPECT_GT(between, 0.0);
    const bool is_sharded = level != ShardingLevel::kOptimizer;
    EXPECT_NEAR((cost(each).backward - cost(once).backward).value(), is_sharded ? between : 0.0,
                1e-12);
    EXPECT_NEAR((cost(once).gradient_sync - cost(each).gradient_sync).value(),
                is_sharded ? between : 0.0, 1e-12);
  }
}

// Two decoders and the ends under ZeRO-3 in groups of 8 of 32 ranks, two micro-batches: rank 11
// gathers and scatters with ranks 8 to 15 and sums with 3, 11, 19 and 27. Under PyTorch the
// embedding too is gathered for both passes.
TEST(CollectivesOfStep, ListsBothGroupsOfHybridSharding) {
  for (const bool sums_each : {false, true}) {
    RuntimeTraits runtime = *FindRuntime("torch");
    runtime.sums_shards_each_pass = sums_each;
    const PlanningProblem problem = FourNodes(runtime);
    const CostModel costs = Valid(CostModel::Create(problem));
    const Plan plan = PlanOf(problem, {.micro_batch_count = 2,
                                       .strategy = Hybrid(1, 32, ShardingLevel::kParameters, 8)});
    double gathers = 0.0, scatters = 0.0, sums = 0.0;
    for (const StepCollective& one : CollectivesOfStep(problem, costs, plan, 11)) {
      if (one.purpose != CollectivePurpose::kGradient) continue;
      if (one.collective == Collective::kAllReduce) {
        EXPECT_THAT(one.ranks, testing::ElementsAre(3, 11, 19, 27));
        sums += one.count;
        continue;
      }
      EXPECT_THAT(one.ranks, testing::ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
      (one.collective == Collective::kAllGather ? gathers : scatters) += one.count;
    }
    EXPECT_EQ(gathers, 2 * 2 * 4);
    EXPECT_EQ(scatters, 2 * 4);
    EXPECT_EQ(sums, sums_each ? 2 * 4 : 4);
  }
}

TEST(CommunicatorCount, IsOneMoreWithTwoKindsOfGroups) {
  const Strategy usual = Hybrid(2, 8, ShardingLevel::kParameters, 0);
  const Strategy hybrid = Hybrid(2, 8, ShardingLevel::kParameters, 4);
  EXPECT_EQ(CommunicatorCount(hybrid, 1, false), CommunicatorCount(usual, 1, false) + 1);
}

}  // namespace
}  // namespace parplan
