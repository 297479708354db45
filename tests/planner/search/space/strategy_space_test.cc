#include "planner/search/space/strategy_space.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/plan_check.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum SearchDimension;

EstimatedOptions Small(int device_count) {
  EstimatedOptions options;
  options.device_count = device_count;
  options.devices_per_node = device_count;
  options.decoder_count = 2;
  options.hidden_size = 768;
  options.attention_head_count = 12;
  options.sequence_length = 96;
  options.global_batch_size = 12;
  options.rules = {.allow_estimates = true};
  // Then selective recomputation saves something.
  options.rules.runtime.attention_kernel = AttentionKernel::kUnfused;
  return options;
}

// Calls `visit` with every combination of fields a stage of `rank_count` ranks could be
// thought to have.
void ForEachCombination(int rank_count, const std::function<void(const Strategy&)>& visit) {
  Strategy s;
  for (s.tensor_parallel_degree = 1; s.tensor_parallel_degree <= rank_count;
       ++s.tensor_parallel_degree) {
    for (s.data_parallel_degree = 1; s.data_parallel_degree <= rank_count;
         ++s.data_parallel_degree) {
      for (s.context_parallel_degree = 1; s.context_parallel_degree <= rank_count;
           ++s.context_parallel_degree) {
        if (s.rank_count() != rank_count) continue;
        for (s.expert_parallel_degree = 1; s.expert_parallel_degree <= 4;
             ++s.expert_parallel_degree) {
          // Other degrees of experts' own are valid too, and not in the space.
          for (int rest = 0; rest < 2 * 4 * 3 * 2 * 2 * 2; ++rest) {
            s.rank_order = static_cast<RankOrder>(rest % 2 + 1);
            s.sharding_level = static_cast<ShardingLevel>(rest / 2 % 4 + 1);
            s.recompute_level = static_cast<RecomputeLevel>(rest / 8 % 3 + 1);
            s.sequence_parallel = rest / 24 % 2 == 1;
            s.context_kind = static_cast<ContextKind>(rest / 48 % 2 + 1);
            s.expert_tensor_parallel_degree = rest / 96;
            visit(s);
          }
        }
      }
    }
  }
}

// One stage in micro-batches of the whole batch, the layers of one definition under
// `strategy` and all others data-parallel.
Plan WithStrategy(const PlanningProblem& problem, int definition_index, const Strategy& strategy) {
  Plan plan;
  plan.device_count = problem.device_count();
  plan.global_batch_size = problem.global_batch_size();
  StagePlan& stage = plan.stages.emplace_back();
  stage.rank_count = problem.device_count();
  int next = 0;
  for (const ModelLayerRun& run : problem.model().layer_runs()) {
    Strategy plain;
    plain.data_parallel_degree = problem.device_count();
    stage.layer_runs.push_back(
        {next, run.layer_count, run.definition_index == definition_index ? strategy : plain});
    next += run.layer_count;
  }
  return plan;
}

// Fields that follow from others, or change nothing.
bool IsCanonical(const CostModel& costs, int definition_index, const Strategy& strategy,
                 int64_t micro_batch_size) {
  if (strategy.sequence_parallel !=
      (strategy.tensor_parallel_degree > 1 &&
       costs.group(kFirstGroup).sequence_parallel(definition_index))) {
    return false;
  }
  if (strategy.recompute_level != RecomputeLevel::kSelective) return true;
  Strategy without = strategy;
  without.recompute_level = RecomputeLevel::kNone;
  return costs.group(kFirstGroup)
             .CostOfLayer(definition_index, strategy, micro_batch_size, 1)
             .memory.kept != costs.group(kFirstGroup)
                                 .CostOfLayer(definition_index, without, micro_batch_size, 1)
                                 .memory.kept;
}

// With all dimensions the space has each strategy the check accepts and no other.
void ExpectSpaceIsWhatTheCheckAccepts(EstimatedOptions options) {
  // Each layer by itself.
  options.tied_embedding = false;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  for (int definition = 0; definition < 3; ++definition) {
    SCOPED_TRACE(definition);
    const std::vector<Strategy> strategies =
        space.Strategies(definition, 1, problem.global_batch_size());
    EXPECT_TRUE(std::is_sorted(strategies.begin(), strategies.end()));
    const std::set<Strategy> in_space(strategies.begin(), strategies.end());
    EXPECT_EQ(in_space.size(), strategies.size());
    size_t accepted = 0;
    ForEachCombination(options.device_count, [&](const Strategy& strategy) {
      const absl::Status status =
          CheckPlanStructure(problem, WithStrategy(problem, definition, strategy));
      const bool belongs =
          status.ok() && IsCanonical(costs, definition, strategy, problem.global_batch_size());
      if (belongs) ++accepted;
      EXPECT_EQ(in_space.contains(strategy), belongs)
          << StrategyNotation(1, strategy) << ": " << status;
    });
    EXPECT_EQ(in_space.size(), accepted);
  }
}

TEST(StrategySpace, IsWhatTheCheckAccepts) {
  for (const int device_count : {1, 4, 6, 12}) {
    SCOPED_TRACE(device_count);
    ExpectSpaceIsWhatTheCheckAccepts(Small(device_count));
  }
}

TEST(StrategySpace, IsWhatTheCheckAcceptsOfExperts) {
  EstimatedOptions options = Small(8);
  options.expert_count = 4;
  options.global_batch_size = 8;
  ExpectSpaceIsWhatTheCheckAccepts(options);
}

TEST(StrategySpace, IsWhatTheCheckAcceptsWithinRules) {
  EstimatedOptions options = Small(12);
  options.rules.max_tensor_parallel_degree = 3;
  options.rules.allow_recompute = false;
  ExpectSpaceIsWhatTheCheckAccepts(options);
  options.rules.allow_sharded_data_parallel = false;
  ExpectSpaceIsWhatTheCheckAccepts(options);
}

TEST(StrategySpace, HasNoContextParallelismWithoutADataSheet) {
  const PlanningProblem problem = SyntheticProblem();
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  const std::vector<Strategy> strategies = space.Strategies(1, 1, 16);
  EXPECT_FALSE(strategies.empty());
  for (const Strategy& strategy : strategies) EXPECT_EQ(strategy.context_parallel_degree, 1);
}

// Every dimension by itself takes away the strategies that use it, and no others.
TEST(StrategySpace, LosesWithADimensionWhatUsesIt) {
  const EstimatedOptions options = Small(12);
  const auto strategies_of = [&](DimensionSet dimensions, int definition) {
    EstimatedOptions with = options;
    with.rules.dimensions = dimensions;
    const PlanningProblem problem = EstimatedProblem(with);
    const CostModel costs = *CostModel::Create(problem);
    return StrategySpace(problem, costs).Strategies(definition, 1, 12);
  };
  struct Case {
    SearchDimension dimension;
    std::function<bool(const Strategy&)> uses;
  };
  const auto shares = [](ContextKind kind) {
    return [kind](const Strategy& s) {
      return s.context_parallel_degree > 1 && s.context_kind == kind;
    };
  };
  const auto shards = [](ShardingLevel level) {
    return [level](const Strategy& s) { return s.sharding_level == level; };
  };
  const auto recomputes = [](RecomputeLevel level) {
    return [level](const Strategy& s) { return s.recompute_level == level; };
  };
  const std::vector<Case> cases = {
      {kTensor, [](const Strategy& s) { return s.tensor_parallel_degree > 1; }},
      {kRankOrder, [](const Strategy& s) { return s.rank_order == RankOrder::kDataInnermost; }},
      {kOptimizerSharding, shards(ShardingLevel::kOptimizer)},
      {kGradientSharding, shards(ShardingLevel::kGradients)},
      {kParameterSharding, shards(ShardingLevel::kParameters)},
      {kUlysses, shares(ContextKind::kUlysses)},
      {kContext, shares(ContextKind::kRing)},
      {kSelectiveRecompute, recomputes(RecomputeLevel::kSelective)},
      {kFullRecompute, recomputes(RecomputeLevel::kFull)},
  };
  for (int definition = 0; definition < 3; ++definition) {
    const std::vector<Strategy> all = strategies_of(DimensionSet::All(), definition);
    for (const Case& one : cases) {
      SCOPED_TRACE(SearchDimensionName(one.dimension));
      std::vector<Strategy> rest = all;
      std::erase_if(rest, one.uses);
      const bool only_transformers =
          one.dimension == kSelectiveRecompute || one.dimension == kFullRecompute;
      EXPECT_EQ(rest.size() < all.size(), definition == 1 || !only_transformers);
      EXPECT_EQ(strategies_of(DimensionSet::All().Without(one.dimension), definition), rest);
    }
  }
}

// Galvatron's decision trees (papers.md 1.1, the closed form derived): 2 n^2 + n + 1 strategies of
// 2^n devices, over all pipeline degrees; twice as many with recomputation.
TEST(StrategySpace, CountsAsTheClosedForm) {
  for (int n = 1; n <= 5; ++n) {
    SCOPED_TRACE(n);
    EstimatedOptions options = Small(1 << n);
    options.attention_head_count = 32;
    options.hidden_size = 1024;
    options.decoder_count = 32;
    options.rules.max_tensor_parallel_degree = 1 << n;
    const auto count = [&](DimensionSet dimensions) {
      options.rules.dimensions = dimensions;
      const PlanningProblem problem = EstimatedProblem(options);
      const CostModel costs = *CostModel::Create(problem);
      const StrategySpace space(problem, costs);
      size_t sum = 0;
      for (const int degree : space.PipelineDegrees()) {
        sum += space.Strategies(1, degree, 32).size();
      }
      return sum;
    };
    const DimensionSet paper = DimensionSet()
                                   .With(kPipeline)
                                   .With(kPerLayer)
                                   .With(kTensor)
                                   .With(kRankOrder)
                                   .With(kParameterSharding);
    const size_t closed_form = 2 * n * n + n + 1;
    EXPECT_EQ(count(paper), closed_form);
    EXPECT_EQ(count(paper.With(kFullRecompute)), 2 * closed_form);
  }
}

TEST(StrategySpace, OfDeepSpeedShardsNoGradientsInAPipeline) {
  EstimatedOptions options = Small(12);
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

TEST(StrategySpace, OfDeepSpeedHasOneAxisBesideDataParallelism) {
  EstimatedOptions options = Small(12);
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

TEST(StrategySpace, OfDeepSpeedSplitsNoLayerWithExperts) {
  EstimatedOptions options = Small(8);
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

TEST(StrategySpace, OfAccelerateShardsParametersOfSplitLayers) {
  EstimatedOptions options = Small(8);
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

TEST(StrategySpace, OfTorchtitanShardsParametersOrInAPipelineStates) {
  EstimatedOptions options = Small(8);
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

TEST(StrategySpace, OfTorchtitanGathersKeysAndValues) {
  EstimatedOptions options = Small(8);
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

TEST(StrategySpace, OfTorchtitanHasOneStageWithATiedTable) {
  EstimatedOptions options = Small(2);
  options.rules.target = Target::kTorchtitan;
  for (const bool is_tied : {false, true}) {
    options.tied_embedding = is_tied;
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    const std::vector<int> degrees = StrategySpace(problem, costs).PipelineDegrees();
    EXPECT_EQ(degrees, is_tied ? std::vector<int>({1}) : std::vector<int>({1, 2}));
  }
}

TEST(StrategySpace, OfTorchtitanSpreadsExpertsOverShardingRanksAlone) {
  EstimatedOptions options = Small(8);
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

TEST(StrategySpace, OfFsdp2SpreadsNoExpertsAndExchangesNoHeads) {
  EstimatedOptions options = Small(8);
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

TEST(StrategySpace, OfGalvatronHasPowersOfTwoAndOneInnerAxisALayer) {
  EstimatedOptions options = Small(8);
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

TEST(StrategySpace, OfGalvatronSpreadsNoExperts) {
  EstimatedOptions options = Small(8);
  options.rules.target = Target::kGalvatron;
  options.expert_count = 4;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const std::vector<Strategy> strategies = StrategySpace(problem, costs).Strategies(1, 1, 8);
  EXPECT_FALSE(strategies.empty());
  for (const Strategy& strategy : strategies) EXPECT_EQ(strategy.expert_parallel_degree, 1);
}

TEST(StrategySpace, OfGalvatronKeepsWhatItsFileHasOnce) {
  EstimatedOptions options = Small(8);
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

// Knowledge about the strategies of one definition applies to equal definitions.
TEST(StrategySpace, HasTheSameStrategiesOfDefinitionsThatAreAlike) {
  int alike_count = 0;
  for (uint64_t seed = 30'000; seed < 30'200; ++seed) {
    const PlanningProblem problem = RandomProblem(seed);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const StrategySpace space(problem, *costs);
    const auto count = static_cast<int>(problem.model().layer_definitions().size());
    for (int definition = 0; definition < count; ++definition) {
      const int like = space.DefinitionLike(definition);
      ASSERT_LE(like, definition);
      if (like == definition) continue;
      ++alike_count;
      for (const int degree : space.PipelineDegrees()) {
        for (const int64_t size : {1, 2, 4, 8}) {
          EXPECT_EQ(space.BareStrategies(definition, degree, size),
                    space.BareStrategies(like, degree, size))
              << "seed " << seed << " definitions " << like << " and " << definition;
        }
      }
    }
  }
  EXPECT_GT(alike_count, 20);
}

TEST(StrategySpace, CutsDevicesIntoStages) {
  EstimatedOptions options = Small(12);
  options.decoder_count = 4;
  const auto degrees = [&](PlanningRules rules) {
    rules.allow_estimates = true;
    options.rules = rules;
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    return StrategySpace(problem, costs).PipelineDegrees();
  };
  EXPECT_THAT(degrees({}), ElementsAre(1, 2, 3, 4, 6));
  EXPECT_THAT(degrees({.max_pipeline_parallel_degree = 3}), ElementsAre(1, 2, 3));
  EXPECT_THAT(degrees({.dimensions = DimensionSet::All().Without(kPipeline)}), ElementsAre(1));
  EXPECT_THAT(degrees({.dimensions = DimensionSet::All().Without(kUnevenStages)}),
              ElementsAre(1, 2, 4));
}

TEST(StrategySpace, CutsBatchesIntoMicroBatches) {
  EstimatedOptions options = Small(4);
  const auto counts = [&](int64_t batch) {
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    return StrategySpace(problem, costs).MicroBatchCounts(batch);
  };
  EXPECT_THAT(counts(12), ElementsAre(1, 2, 3, 4, 6, 12));
  options.rules.smallest_global_batch_size = 4;
  options.rules.micro_batch_count = 4;
  EXPECT_THAT(counts(12), ElementsAre(4));
  EXPECT_THAT(counts(10), IsEmpty());
}

TEST(StrategySpace, HasTheSchedulesOfDimensionsAndRules) {
  EstimatedOptions options = Small(4);
  const auto schedules = [&](std::optional<Schedule> wanted, DimensionSet dimensions, int degree) {
    options.rules.schedule = wanted;
    options.rules.dimensions = dimensions;
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    return StrategySpace(problem, costs).Schedules(degree);
  };
  const DimensionSet all = DimensionSet::All();
  const Schedule one_one = Schedule::kOneForwardOneBackward;
  EXPECT_THAT(schedules({}, all, 2),
              ElementsAre(one_one, Schedule::kGpipe, Schedule::kInterleaved));
  EXPECT_THAT(schedules({}, all, 1), ElementsAre(one_one));
  EXPECT_THAT(schedules({}, all.Without(kGpipe).Without(kInterleaved), 2), ElementsAre(one_one));
  EXPECT_THAT(schedules(Schedule::kGpipe, all, 2), ElementsAre(Schedule::kGpipe));
  EXPECT_THAT(schedules(Schedule::kGpipe, all, 1), ElementsAre(Schedule::kGpipe));
  EXPECT_THAT(schedules(Schedule::kInterleaved, all, 2), ElementsAre(Schedule::kInterleaved));
}

}  // namespace
}  // namespace parplan
