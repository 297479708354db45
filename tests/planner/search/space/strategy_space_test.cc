#include "planner/search/space/strategy_space.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "tests/planner/search/space/space_options.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum SearchDimension;

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
    ExpectSpaceIsWhatTheCheckAccepts(TwoDecoderOptions(device_count));
  }
}

TEST(StrategySpace, IsWhatTheCheckAcceptsOfExperts) {
  EstimatedOptions options = TwoDecoderOptions(8);
  options.expert_count = 4;
  options.global_batch_size = 8;
  ExpectSpaceIsWhatTheCheckAccepts(options);
}

TEST(StrategySpace, IsWhatTheCheckAcceptsWithinRules) {
  EstimatedOptions options = TwoDecoderOptions(12);
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
  const EstimatedOptions options = TwoDecoderOptions(12);
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
    EstimatedOptions options = TwoDecoderOptions(1 << n);
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
  EstimatedOptions options = TwoDecoderOptions(12);
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
  EstimatedOptions options = TwoDecoderOptions(4);
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
  EstimatedOptions options = TwoDecoderOptions(4);
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
