#include "planner/model/strategy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace parplan {
namespace {

// A strategy without sharding and recomputation.
Strategy Of(int tensor, int data, RankOrder order = RankOrder::kTensorInnermost) {
  Strategy strategy;
  strategy.tensor_parallel_degree = tensor;
  strategy.data_parallel_degree = data;
  strategy.rank_order = order;
  return strategy;
}

Strategy Sharded(Strategy strategy, ShardingLevel level = ShardingLevel::kParameters) {
  strategy.sharding_level = level;
  return strategy;
}

Strategy Recomputed(Strategy strategy) {
  strategy.recompute_level = RecomputeLevel::kFull;
  return strategy;
}

TEST(StrategyNotation, NamesTheTwentyTwoStrategiesOfEightDevices) {
  constexpr RankOrder kTensor = RankOrder::kTensorInnermost;
  constexpr RankOrder kData = RankOrder::kDataInnermost;
  const struct {
    int pipeline;
    Strategy strategy;
    std::string notation;
  } kVectors[] = {
      {1, Of(1, 8), "1-1-8"},
      {1, Sharded(Of(1, 8)), "1-1-8f"},
      {1, Of(2, 4, kTensor), "1-2*-4"},
      {1, Of(2, 4, kData), "1-2-4*"},
      {1, Sharded(Of(2, 4, kTensor)), "1-2*-4f"},
      {1, Sharded(Of(2, 4, kData)), "1-2-4f*"},
      {1, Of(4, 2, kTensor), "1-4*-2"},
      {1, Of(4, 2, kData), "1-4-2*"},
      {1, Sharded(Of(4, 2, kTensor)), "1-4*-2f"},
      {1, Sharded(Of(4, 2, kData)), "1-4-2f*"},
      {1, Of(8, 1), "1-8-1"},
      {2, Of(1, 4), "2-1-4"},
      {2, Sharded(Of(1, 4)), "2-1-4f"},
      {2, Of(2, 2, kTensor), "2-2*-2"},
      {2, Of(2, 2, kData), "2-2-2*"},
      {2, Sharded(Of(2, 2, kTensor)), "2-2*-2f"},
      {2, Sharded(Of(2, 2, kData)), "2-2-2f*"},
      {2, Of(4, 1), "2-4-1"},
      {4, Of(1, 2), "4-1-2"},
      {4, Sharded(Of(1, 2)), "4-1-2f"},
      {4, Of(2, 1), "4-2-1"},
      {8, Of(1, 1), "8-1-1"},
  };
  for (const auto& [pipeline, strategy, notation] : kVectors) {
    EXPECT_EQ(StrategyNotation(pipeline, strategy), notation);
  }
}

TEST(StrategyNotation, MarksRecomputationLast) {
  EXPECT_EQ(StrategyNotation(2, Recomputed(Of(4, 1))), "2-4-1-c");
  EXPECT_EQ(StrategyNotation(1, Recomputed(Sharded(Of(2, 4, RankOrder::kDataInnermost)))),
            "1-2-4f*-c");
}

TEST(StrategyNotation, NamesTheModules) {
  Strategy strategy = Of(4, 1);
  strategy.recompute_level = RecomputeLevel::kSelective;
  EXPECT_EQ(StrategyNotation(2, strategy), "2-4-1-s");
  strategy.set_recomputation(Recomputation(
      *RecomputeModules::Create({RecomputeModule::kFeedForward, RecomputeModule::kNorms}, "")));
  EXPECT_EQ(StrategyNotation(2, strategy), "2-4-1-s:layernorm+mlp");
}

TEST(StrategyNotation, SaysHowRanksShareTokens) {
  Strategy strategy{.data_parallel_degree = 2, .context_parallel_degree = 8};
  EXPECT_EQ(StrategyNotation(1, strategy), "1-1-2-cp8");
  strategy.context_exchange_degree = 2;
  EXPECT_EQ(StrategyNotation(1, strategy), "1-1-2-sp2-cp4");
  strategy.context_exchange_degree = 1;
  strategy.context_kind = ContextKind::kUlysses;
  EXPECT_EQ(StrategyNotation(1, strategy), "1-1-2-sp8");
  strategy.context_kind = ContextKind::kAllGather;
  EXPECT_EQ(StrategyNotation(1, strategy), "1-1-2-ag8");
}

TEST(StrategyNotation, ShowsTheDegreesOfExperts) {
  Strategy strategy = Of(4, 2);
  strategy.expert_parallel_degree = 4;
  strategy.expert_tensor_parallel_degree = 1;
  EXPECT_EQ(StrategyNotation(1, strategy), "1-4*-2-ep4-etp1");
  EXPECT_EQ(strategy.expert_tensor_degree(), 1);
  EXPECT_EQ(strategy.expert_replica_count(), 2);
  strategy.expert_parallel_degree = 2;
  strategy.expert_tensor_parallel_degree = 0;
  EXPECT_EQ(strategy.expert_tensor_degree(), 4);
  EXPECT_EQ(strategy.expert_replica_count(), 1);
}

TEST(StrategyNotation, ShowsTheRanksThatShareStates) {
  Strategy strategy = Sharded(Of(2, 8), ShardingLevel::kParameters);
  EXPECT_EQ(strategy.shard_count(), 8);
  EXPECT_EQ(strategy.shard_group_count(), 1);
  strategy.sharding_degree = 4;
  EXPECT_EQ(StrategyNotation(1, strategy), "1-2*-8f-hs4");
  EXPECT_EQ(strategy.replica_count(), 8);
  EXPECT_EQ(strategy.shard_count(), 4);
  EXPECT_EQ(strategy.shard_group_count(), 2);
  strategy.sharding_level = ShardingLevel::kOptimizer;
  EXPECT_EQ(StrategyNotation(2, strategy), "2-2*-8z1-hs4");
}

TEST(StrategyNotation, DistinguishesTheShardingLevels) {
  EXPECT_EQ(StrategyNotation(1, Sharded(Of(1, 8), ShardingLevel::kOptimizer)), "1-1-8z1");
  EXPECT_EQ(StrategyNotation(1, Sharded(Of(1, 8), ShardingLevel::kGradients)), "1-1-8z2");
  EXPECT_EQ(StrategyNotation(1, Sharded(Of(2, 4), ShardingLevel::kGradients)), "1-2*-4z2");
}

TEST(Strategy, HasConsecutiveRanksOnItsInnermostAxis) {
  const Strategy tensor_inner = Of(2, 4, RankOrder::kTensorInnermost);
  EXPECT_EQ(tensor_inner.tensor_stride(), 1);
  EXPECT_EQ(tensor_inner.data_stride(), 2);
  const Strategy data_inner = Of(2, 4, RankOrder::kDataInnermost);
  EXPECT_EQ(data_inner.tensor_stride(), 4);
  EXPECT_EQ(data_inner.data_stride(), 1);
  EXPECT_EQ(data_inner.rank_count(), 8);
}

// Ties of every search are broken by this order.
TEST(Strategy, IsOrderedFieldByField) {
  const std::vector<Strategy> ordered = {
      Of(1, 8),
      Recomputed(Of(1, 8)),
      Sharded(Of(1, 8)),
      Of(2, 4),
      Of(2, 4, RankOrder::kDataInnermost),
      Of(4, 2),
  };
  for (size_t i = 1; i < ordered.size(); ++i) EXPECT_LT(ordered[i - 1], ordered[i]) << i;
}

}  // namespace
}  // namespace parplan
