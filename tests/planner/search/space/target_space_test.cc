// The strategies that a stage may have under each target but `megatron`: rows of the tables in
// docs/targets.md.

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/search/space/strategy_space.h"
#include "tests/planner/search/space/space_options.h"
#include "tests/support/estimated_problem.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TargetSpace, OfDeepSpeedShardsNoGradientsInAPipeline) {
  EstimatedOptions options = TwoDecoderOptions(12);
  options.rules.target = Target::kDeepSpeed;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  const auto most = [&](int degree) {
    ShardingLevel level = ShardingLevel::kNone;
    for (const Strategy& strategy : space.Strategies(1, degree, 12)) {
      level = std::max(level, strategy.sharding_level);
    }
    return level;
  };
  EXPECT_EQ(most(1), ShardingLevel::kParameters);
  EXPECT_EQ(most(2), ShardingLevel::kOptimizer);
}

TEST(TargetSpace, OfDeepSpeedHasOneAxisBesideDataParallelism) {
  EstimatedOptions options = TwoDecoderOptions(12);
  options.rules.target = Target::kDeepSpeed;
  options.rules.dimensions = DimensionSet::All();
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  std::set<int> tensor, context;
  for (const Strategy& strategy : space.Strategies(1, 1, 12)) {
    tensor.insert(strategy.tensor_parallel_degree);
    context.insert(strategy.context_parallel_degree);
    EXPECT_TRUE(strategy.tensor_parallel_degree == 1 || strategy.context_parallel_degree == 1);
    EXPECT_TRUE(strategy.context_parallel_degree == 1 ||
                strategy.context_kind == ContextKind::kUlysses);
  }
  EXPECT_THAT(tensor, ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THAT(context, ElementsAre(1, 2, 3, 4, 6, 12));
  // In a pipeline only data parallelism, and with replicas sharded optimizer states.
  for (const Strategy& strategy : space.Strategies(1, 2, 12)) {
    EXPECT_EQ(strategy.data_parallel_degree, 6);
    EXPECT_EQ(strategy.sharding_level, ShardingLevel::kOptimizer);
  }
  EXPECT_EQ(space.Strategies(1, 2, 12).size(), 2);
  // One replica has nothing to shard.
  for (const Strategy& strategy : space.Strategies(1, 12, 12)) {
    EXPECT_EQ(strategy.sharding_level, ShardingLevel::kNone);
  }
}

TEST(TargetSpace, OfDeepSpeedSplitsNoLayerWithExperts) {
  EstimatedOptions options = TwoDecoderOptions(8);
  options.rules.target = Target::kDeepSpeed;
  options.expert_count = 4;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  std::set<int> spread;
  for (const Strategy& strategy : StrategySpace(problem, costs).Strategies(1, 1, 8)) {
    spread.insert(strategy.expert_parallel_degree);
    EXPECT_EQ(strategy.data_parallel_degree, 8);
  }
  EXPECT_THAT(spread, ElementsAre(1, 2, 4));
}

TEST(TargetSpace, OfAccelerateShardsParametersOfSplitLayers) {
  EstimatedOptions options = TwoDecoderOptions(8);
  options.rules.target = Target::kAccelerate;
  for (const int experts : {0, 4}) {
    options.expert_count = experts;
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    const StrategySpace space(problem, costs);
    EXPECT_THAT(space.PipelineDegrees(), ElementsAre(1));
    std::set<ShardingLevel> of_whole, of_split;
    for (const Strategy& strategy : space.Strategies(1, 1, 8)) {
      EXPECT_EQ(strategy.expert_parallel_degree, 1);
      EXPECT_EQ(strategy.context_kind, ContextKind::kRing);
      if (strategy.tensor_parallel_degree == 8) continue;
      (strategy.data_parallel_degree == 8 ? of_whole : of_split).insert(strategy.sharding_level);
    }
    EXPECT_THAT(of_whole, ElementsAre(ShardingLevel::kNone, ShardingLevel::kParameters));
    if (experts > 0) {
      EXPECT_THAT(of_split, IsEmpty());
    } else {
      EXPECT_THAT(of_split, ElementsAre(ShardingLevel::kParameters));
    }
  }
}

TEST(TargetSpace, OfTorchtitanShardsParametersOrInAPipelineStates) {
  EstimatedOptions options = TwoDecoderOptions(8);
  options.rules.target = Target::kTorchtitan;
  options.tied_embedding = false;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  std::set<ShardingLevel> of_one_stage, of_two, of_rings;
  for (const Strategy& strategy : space.Strategies(1, 1, 8)) {
    of_one_stage.insert(strategy.sharding_level);
  }
  for (const Strategy& strategy : space.Strategies(1, 2, 8)) {
    if (strategy.data_parallel_degree * strategy.context_parallel_degree == 1) continue;
    (strategy.context_parallel_degree > 1 ? of_rings : of_two).insert(strategy.sharding_level);
  }
  EXPECT_THAT(of_one_stage, ElementsAre(ShardingLevel::kParameters));
  EXPECT_THAT(of_two, ElementsAre(ShardingLevel::kNone, ShardingLevel::kOptimizer));
  EXPECT_THAT(of_rings, ElementsAre(ShardingLevel::kOptimizer));
}

TEST(TargetSpace, OfTorchtitanGathersKeysAndValues) {
  EstimatedOptions options = TwoDecoderOptions(8);
  options.tied_embedding = false;
  std::map<Target, std::set<std::pair<bool, ContextKind>>> kinds;
  for (const Target target : {Target::kTorchtitan, Target::kAccelerate}) {
    options.rules.target = target;
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    for (const Strategy& strategy : StrategySpace(problem, costs).Strategies(1, 1, 8)) {
      kinds[target].insert({strategy.context_parallel_degree > 1, strategy.context_kind});
    }
  }
  EXPECT_THAT(kinds[Target::kTorchtitan], ElementsAre(std::pair(false, ContextKind::kRing),
                                                      std::pair(true, ContextKind::kAllGather)));
  EXPECT_THAT(kinds[Target::kAccelerate], ElementsAre(std::pair(false, ContextKind::kRing),
                                                      std::pair(true, ContextKind::kRing)));
}

TEST(TargetSpace, OfTorchtitanHasOneStageWithATiedTable) {
  EstimatedOptions options = TwoDecoderOptions(2);
  options.rules.target = Target::kTorchtitan;
  for (const bool is_tied : {false, true}) {
    options.tied_embedding = is_tied;
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    const std::vector<int> degrees = StrategySpace(problem, costs).PipelineDegrees();
    EXPECT_EQ(degrees, is_tied ? std::vector<int>({1}) : std::vector<int>({1, 2}));
  }
}

TEST(TargetSpace, OfTorchtitanSpreadsExpertsOverShardingRanksAlone) {
  EstimatedOptions options = TwoDecoderOptions(8);
  options.rules.target = Target::kTorchtitan;
  options.tied_embedding = false;
  options.expert_count = 4;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  std::set<int> spread;
  for (const Strategy& strategy : StrategySpace(problem, costs).Strategies(1, 2, 8)) {
    spread.insert(strategy.expert_parallel_degree);
    if (strategy.expert_parallel_degree == 1) continue;
    EXPECT_EQ(strategy.tensor_parallel_degree, 1);
    EXPECT_EQ(strategy.sharding_level, ShardingLevel::kOptimizer);
  }
  EXPECT_THAT(spread, ElementsAre(1, 2, 4));
}

TEST(TargetSpace, OfFsdp2SpreadsNoExpertsAndExchangesNoHeads) {
  EstimatedOptions options = TwoDecoderOptions(8);
  options.rules.target = Target::kFsdp2;
  options.expert_count = 4;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  std::set<ShardingLevel> levels, of_table;
  for (const Strategy& strategy : space.Strategies(1, 2, 8)) {
    EXPECT_EQ(strategy.expert_parallel_degree, 1);
    EXPECT_EQ(strategy.context_kind, ContextKind::kRing);
    levels.insert(strategy.sharding_level);
  }
  EXPECT_EQ(levels.size(), 4);
  // Embedding and head share a table, and are in two stages.
  for (const Strategy& strategy : space.Strategies(0, 2, 8)) {
    of_table.insert(strategy.sharding_level);
  }
  EXPECT_THAT(of_table, ElementsAre(ShardingLevel::kNone));
}

TEST(SharesAsAllowed, AsksForEqualPartsOfWhatTheTargetSplitsEqually) {
  LayerDefinition layer;
  layer.kind = LayerKind::kDecoder;
  layer.feed_forward_size = 6;
  layer.sequence_length = 12;
  const TargetLimits& fsdp2 = LimitsOf(Target::kFsdp2);
  const TargetLimits& torchtitan = LimitsOf(Target::kTorchtitan);
  Strategy four{.tensor_parallel_degree = 4};
  EXPECT_FALSE(SharesAsAllowed(fsdp2, layer, four));
  EXPECT_TRUE(SharesAsAllowed(torchtitan, layer, four));
  layer.feed_forward_size = 8;
  EXPECT_TRUE(SharesAsAllowed(fsdp2, layer, four));
  // Six tokens of each of two ranks, in two parts of three for torchtitan.
  Strategy two{.tensor_parallel_degree = 2, .context_parallel_degree = 2};
  EXPECT_TRUE(SharesAsAllowed(torchtitan, layer, two));
  two.sequence_parallel = true;
  EXPECT_FALSE(SharesAsAllowed(torchtitan, layer, two));
  EXPECT_TRUE(SharesAsAllowed(fsdp2, layer, two));
  layer.sequence_length = 10;
  EXPECT_FALSE(SharesAsAllowed(fsdp2, layer, two));
  EXPECT_TRUE(SharesAsAllowed(LimitsOf(Target::kMegatron), layer, two));
  layer.sequence_length = 12;
  layer.latent_attention = LatentAttention{};
  EXPECT_FALSE(SharesAsAllowed(fsdp2, layer, four));
  EXPECT_TRUE(SharesAsAllowed(torchtitan, layer, four));
}

TEST(TargetSpace, OfGalvatronHasPowersOfTwoAndOneInnerAxisALayer) {
  EstimatedOptions options = TwoDecoderOptions(8);
  options.attention_head_count = 24;
  options.rules.target = Target::kGalvatron;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  bool has_tensor = false;
  bool has_ulysses = false;
  for (const Strategy& strategy : space.Strategies(1, 1, 8)) {
    EXPECT_TRUE(strategy.tensor_parallel_degree == 1 || strategy.context_parallel_degree == 1);
    EXPECT_TRUE(strategy.context_parallel_degree == 1 ||
                strategy.context_kind == ContextKind::kUlysses);
    has_tensor |= strategy.tensor_parallel_degree > 1;
    has_ulysses |= strategy.context_parallel_degree > 1;
  }
  EXPECT_TRUE(has_tensor);
  EXPECT_TRUE(has_ulysses);
  // Stages of three ranks have none, and no pipeline has three stages.
  const PlanningProblem twelve = [&] {
    EstimatedOptions odd = options;
    odd.device_count = odd.devices_per_node = 12;
    odd.decoder_count = 4;
    return EstimatedProblem(odd);
  }();
  const CostModel twelve_costs = *CostModel::Create(twelve);
  const StrategySpace odd(twelve, twelve_costs);
  EXPECT_THAT(odd.PipelineDegrees(), ElementsAre(1, 2, 4));
  EXPECT_THAT(odd.Strategies(1, 4, 12), IsEmpty());
}

TEST(TargetSpace, OfGalvatronSpreadsNoExperts) {
  EstimatedOptions options = TwoDecoderOptions(8);
  options.rules.target = Target::kGalvatron;
  options.expert_count = 4;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const std::vector<Strategy> strategies = StrategySpace(problem, costs).Strategies(1, 1, 8);
  EXPECT_FALSE(strategies.empty());
  for (const Strategy& strategy : strategies) EXPECT_EQ(strategy.expert_parallel_degree, 1);
}

TEST(TargetSpace, OfGalvatronKeepsWhatItsFileHasOnce) {
  EstimatedOptions options = TwoDecoderOptions(8);
  options.rules.target = Target::kGalvatron;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  for (const Strategy& strategy : space.Strategies(1, 1, 8)) {
    EXPECT_TRUE(strategy.data_parallel_degree > 1 ||
                strategy.sharding_level == ShardingLevel::kNone);
  }
  const Strategy whole = {.data_parallel_degree = 8};
  Strategy gradients = whole;
  gradients.sharding_level = ShardingLevel::kGradients;
  Strategy parameters = whole;
  parameters.sharding_level = ShardingLevel::kParameters;
  // `default_dp_type` is the level of all layers that do not shard parameters.
  EXPECT_FALSE(space.GoTogether(1, whole, 1, gradients));
  EXPECT_TRUE(space.GoTogether(1, whole, 1, parameters));
  EXPECT_TRUE(space.GoTogether(1, gradients, 1, parameters));
  EXPECT_TRUE(space.MayReplace(1, whole, parameters));
  EXPECT_FALSE(space.MayReplace(1, parameters, whole));
  EXPECT_FALSE(space.MayReplace(1, whole, gradients));
  // Embedding and head have one strategy.
  EXPECT_TRUE(space.GoTogether(0, whole, 2, whole));
  EXPECT_FALSE(space.GoTogether(0, whole, 2, parameters));
  // So has sequence parallelism.
  const Strategy four = {.tensor_parallel_degree = 4, .data_parallel_degree = 2};
  Strategy in_sequence = four;
  in_sequence.sequence_parallel = true;
  EXPECT_FALSE(space.GoTogether(1, four, 1, in_sequence));
  EXPECT_TRUE(space.GoTogether(1, whole, 1, in_sequence));
}

}  // namespace
}  // namespace parplan
