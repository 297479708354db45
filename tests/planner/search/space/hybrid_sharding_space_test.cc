// Groups of ranks that share states: the strategies that are searched, their twin, laws of the
// answers, and what is refused.

#include <functional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "planner/check/result_check.h"
#include "planner/cost/predict_plan.h"
#include "planner/find_plan.h"
#include "planner/search/space/strategy_space.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Target kHybridTargets[] = {Target::kFsdp2, Target::kTorchtitan, Target::kMegatron};

EstimatedOptions HybridOptions(Target target, int device_count) {
  EstimatedOptions options{.device_count = device_count,
                           .devices_per_node = device_count / 2,
                           .decoder_count = 2,
                           .hidden_size = 1024,
                           .attention_head_count = 16,
                           .sequence_length = 1024,
                           .tied_embedding = false,
                           .global_batch_size = 16};
  options.rules = {.target = target, .allow_estimates = true};
  options.rules.runtime = *FindRuntime(LimitsOf(target).runtime_id);
  options.rules.dimensions = DimensionSet::All()
                                 .Without(SearchDimension::kModuleRecompute)
                                 .Without(SearchDimension::kExpertTensor)
                                 .Without(SearchDimension::kZeroBubble);
  return options;
}

// Returns the sharding degrees of a decoder in one stage by level, of those strategies for which
// `holds`.
std::set<int> DegreesAt(ShardingLevel level, const EstimatedOptions& options,
                        const std::function<bool(const Strategy&)>& holds = nullptr) {
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  std::set<int> found;
  for (const Strategy& each :
       StrategySpace(problem, costs).Strategies(1, 1, options.global_batch_size)) {
    if (each.sharding_level == level && (!holds || holds(each))) found.insert(each.sharding_degree);
  }
  return found;
}

TEST(HybridShardingSpace, HasTheDivisorsOfTheRanksWithTheSameParameters) {
  const auto all_data = [](const Strategy& each) { return each.data_parallel_degree == 16; };
  const EstimatedOptions options = HybridOptions(Target::kFsdp2, 16);
  EXPECT_THAT(DegreesAt(ShardingLevel::kNone, options, all_data), ElementsAre(0));
  for (const ShardingLevel level :
       {ShardingLevel::kOptimizer, ShardingLevel::kGradients, ShardingLevel::kParameters}) {
    EXPECT_THAT(DegreesAt(level, options, all_data), ElementsAre(0, 2, 4, 8));
    const auto beside_tensor = [](const Strategy& each) {
      return each.tensor_parallel_degree == 4 && each.context_parallel_degree == 2;
    };
    EXPECT_THAT(DegreesAt(level, options, beside_tensor), ElementsAre(0, 2));
  }
  EstimatedOptions without = options;
  without.rules.dimensions = options.rules.dimensions.Without(SearchDimension::kHybridSharding);
  EXPECT_THAT(DegreesAt(ShardingLevel::kParameters, without), ElementsAre(0));
}

TEST(HybridShardingSpace, IsAsTargetsRunIt) {
  // Instances of Megatron-LM's distributed optimizer.
  const EstimatedOptions megatron = HybridOptions(Target::kMegatron, 16);
  EXPECT_THAT(DegreesAt(ShardingLevel::kOptimizer, megatron), ElementsAre(0, 2, 4, 8));
  EXPECT_THAT(DegreesAt(ShardingLevel::kGradients, megatron), ElementsAre(0));
  EXPECT_THAT(DegreesAt(ShardingLevel::kParameters, megatron), ElementsAre(0));
  // Context-parallel ranks of torchtitan share parameters.
  const EstimatedOptions titan = HybridOptions(Target::kTorchtitan, 16);
  const auto shares_tokens = [](const Strategy& each) {
    return each.context_parallel_degree == 4 && each.data_parallel_degree == 4;
  };
  EXPECT_THAT(DegreesAt(ShardingLevel::kParameters, titan, shares_tokens), ElementsAre(0, 4, 8));
  for (const Target target :
       {Target::kParplan, Target::kDeepSpeed, Target::kGalvatron, Target::kAccelerate}) {
    const EstimatedOptions other = HybridOptions(target, 16);
    EXPECT_FALSE(LimitsOf(target).dimensions.has(SearchDimension::kHybridSharding));
    for (const int level : {1, 2, 3, 4}) {
      for (const int degree : DegreesAt(static_cast<ShardingLevel>(level), other)) {
        EXPECT_EQ(degree, 0);
      }
    }
  }
}

// Ranks that share the experts of a layer are in one group.
TEST(HybridShardingSpace, KeepsRanksOfExpertsTogether) {
  EstimatedOptions options = HybridOptions(Target::kTorchtitan, 16);
  options.expert_count = 8;
  const auto spread = [](int degree) {
    return [degree](const Strategy& each) {
      return each.expert_parallel_degree == degree && each.tensor_parallel_degree == 1 &&
             each.context_parallel_degree == 1;
    };
  };
  EXPECT_THAT(DegreesAt(ShardingLevel::kParameters, options, spread(1)), ElementsAre(0, 2, 4, 8));
  EXPECT_THAT(DegreesAt(ShardingLevel::kParameters, options, spread(4)), ElementsAre(0, 4, 8));
  EXPECT_THAT(DegreesAt(ShardingLevel::kParameters, options, spread(8)), ElementsAre(0, 8));
}

// Of all plans the best is found and proved.
TEST(HybridShardingSpace, AnswersAsBruteForce) {
  int hybrid_count = 0;
  for (const Target target : kHybridTargets) {
    for (const double network_speed : {0.02, 1.0}) {
      EstimatedOptions options = HybridOptions(target, 4);
      options.network_speed = network_speed;
      options.global_batch_size = 8;
      options.rules.micro_batch_count = 2;
      options.rules.schedule = Schedule::kOneForwardOneBackward;
      options.rules.dimensions = options.rules.dimensions.Without(SearchDimension::kRankOrder)
                                     .Without(SearchDimension::kUlysses)
                                     .Without(SearchDimension::kSelectiveRecompute)
                                     .Without(SearchDimension::kBlockRecompute)
                                     .Without(SearchDimension::kPerLayer);
      const PlanningProblem roomy = EstimatedProblem(options);
      ASSERT_OK_AND_ASSIGN(const PlanningResult best, FindPlan(roomy, "exact"));
      const double most = std::get<PlanFound>(best).prediction.peak_memory_upper.as_double();
      for (const double share : {0.6, 0.75, 0.85, 0.93, 1.0}) {
        SCOPED_TRACE(testing::Message() << LimitsOf(target).name << ", network " << network_speed
                                        << ", " << share << " of the memory");
        const PlanningProblem problem = roomy.WithUsableMemory(Bytes::Ceil(most * share));
        ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
        const BruteForceAnswer twin = EveryPlan(problem, costs);
        ASSERT_OK_AND_ASSIGN(const PlanningResult result, FindPlan(problem, "exact"));
        ASSERT_EQ(std::holds_alternative<PlanFound>(result), twin.best.has_value());
        if (!twin.best.has_value()) continue;
        EXPECT_OK(CheckResult(problem, result));
        const auto& found = std::get<PlanFound>(result);
        EXPECT_EQ(found.search.termination, Termination::kOptimal);
        EXPECT_NEAR(found.prediction.step / twin.best->prediction.step, 1.0, 1e-9)
            << PlanGist(found.plan) << " and not " << PlanGist(twin.best->plan);
        for (const StageLayerRun& run : found.plan.stages[0].layer_runs) {
          if (run.strategy.sharding_degree > 0) ++hybrid_count;
        }
      }
    }
  }
  EXPECT_GT(hybrid_count, 0);
}

// A law: the plans of usual sharding are among those of the larger space, which is never worse; on
// a slow network it is better.
TEST(HybridShardingSpace, IsNeverWorse) {
  int better_count = 0;
  for (const Target target : kHybridTargets) {
    for (const int device_count : {8, 16}) {
      for (const double network_speed : {0.02, 0.2, 1.0}) {
        EstimatedOptions options = HybridOptions(target, device_count);
        options.network_speed = network_speed;
        options.decoder_count = 4;
        SCOPED_TRACE(testing::Message() << LimitsOf(target).name << ", " << device_count
                                        << " devices, network " << network_speed);
        const auto step = [&](DimensionSet dimensions, double share) {
          options.rules.dimensions = dimensions;
          const PlanningProblem roomy = EstimatedProblem(options);
          const Bytes usable = Bytes::Ceil(roomy.usable_memory().as_double() * share);
          const absl::StatusOr<PlanningResult> result =
              FindPlan(roomy.WithUsableMemory(usable), "exact");
          const auto* const found = result.ok() ? std::get_if<PlanFound>(&*result) : nullptr;
          return found == nullptr ? 1e9 : found->prediction.step.value();
        };
        const DimensionSet all = options.rules.dimensions;
        for (const double share : {0.06, 0.12, 1.0}) {
          const double larger = step(all, share);
          const double smaller = step(all.Without(SearchDimension::kHybridSharding), share);
          EXPECT_LE(larger, smaller * (1.0 + 1e-12)) << share;
          if (larger < smaller * 0.999) ++better_count;
        }
      }
    }
  }
  EXPECT_GT(better_count, 0);
}

// A law: more memory never gives a slower plan, and each answer passes its check.
TEST(HybridShardingSpace, GivesNoSlowerPlanWithMoreMemory) {
  EstimatedOptions options = HybridOptions(Target::kFsdp2, 8);
  options.network_speed = 0.05;
  const PlanningProblem roomy = EstimatedProblem(options);
  double least = 1e9;
  for (const double share : {0.04, 0.05, 0.06, 0.08, 0.1, 0.2, 1.0}) {
    const PlanningProblem problem =
        roomy.WithUsableMemory(Bytes::Ceil(roomy.usable_memory().as_double() * share));
    ASSERT_OK_AND_ASSIGN(const PlanningResult result, FindPlan(problem, "exact"));
    const auto* const found = std::get_if<PlanFound>(&result);
    if (found == nullptr) continue;
    EXPECT_OK(CheckResult(problem, result));
    EXPECT_LE(found->prediction.step.value(), least * (1.0 + 1e-12));
    least = found->prediction.step.value();
  }
  EXPECT_LT(least, 1e9);
}

TEST(CheckPlanStructure, WantsGroupsOfSomeRanksThatShareStates) {
  const PlanningProblem problem = EstimatedProblem(HybridOptions(Target::kFsdp2, 16));
  const auto check = [&problem](Strategy strategy) {
    return CheckPlanStructure(problem, PlanOf(problem, UniformPlan{.strategy = strategy}));
  };
  const auto refused = [](const std::string& fact) {
    return StatusIs(absl::StatusCode::kInternal, HasSubstr(fact));
  };
  Strategy strategy{.tensor_parallel_degree = 2, .data_parallel_degree = 8};
  strategy.sequence_parallel = true;
  strategy.set_sharding({ShardingLevel::kParameters, 4});
  EXPECT_OK(check(strategy));
  strategy.sharding_degree = 3;
  EXPECT_THAT(check(strategy), refused("sharding_degree 3, which is no divisor of its 8 ranks"));
  strategy.sharding_degree = 8;
  EXPECT_THAT(check(strategy), refused("sharding_degree 8, which is no divisor of its 8 ranks"));
  strategy.sharding_degree = 1;
  EXPECT_THAT(check(strategy), refused("sharding_degree 1, which is no divisor of its 8 ranks"));
  strategy.sharding_degree = -2;
  EXPECT_THAT(check(strategy), refused("sharding_degree -2, which is no divisor"));
  strategy.set_sharding({ShardingLevel::kNone, 4});
  EXPECT_THAT(check(strategy), refused("sharding_degree 4 and no sharding"));
  EstimatedOptions options = HybridOptions(Target::kFsdp2, 16);
  options.expert_count = 8;
  const PlanningProblem with_experts = EstimatedProblem(options);
  Strategy whole{.data_parallel_degree = 16};
  whole.set_sharding({ShardingLevel::kParameters, 2});
  Plan plan = PlanOf(with_experts, UniformPlan{.strategy = whole});
  plan.stages[0].layer_runs[1].strategy.expert_parallel_degree = 4;
  EXPECT_THAT(CheckPlanStructure(with_experts, plan),
              refused("sharding_degree 2, which parts the ranks that share its experts"));
}

// The check of answers states once more what the space has.
TEST(CheckResult, RefusesHybridShardingOutsideItsSpace) {
  const auto check = [](const EstimatedOptions& options, ShardingLevel level, int context,
                        int degree) {
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    Strategy strategy{.data_parallel_degree = 16 / context, .context_parallel_degree = context};
    if (context > 1) strategy.context_kind = LimitsOf(options.rules.target).context_kind;
    strategy.set_sharding({level, degree});
    PlanFound found;
    found.plan = PlanOf(problem, UniformPlan{.strategy = strategy});
    found.prediction = PlanEvaluator(problem, costs).Predict(found.plan);
    found.search = {.termination = Termination::kOptimal,
                    .limit = SearchLimit::kNone,
                    .bound = found.prediction.step,
                    .gap_ratio = 0.0};
    return CheckResult(problem, PlanningResult(found));
  };
  const auto outside = [](const std::string& fact) {
    return StatusIs(absl::StatusCode::kInternal, HasSubstr(fact));
  };
  EstimatedOptions options = HybridOptions(Target::kFsdp2, 16);
  EXPECT_OK(check(options, ShardingLevel::kParameters, 1, 4));
  options.rules.dimensions = options.rules.dimensions.Without(SearchDimension::kHybridSharding);
  EXPECT_THAT(check(options, ShardingLevel::kParameters, 1, 4), outside("uses `hybrid-sharding`"));
  const EstimatedOptions megatron = HybridOptions(Target::kMegatron, 16);
  EXPECT_OK(check(megatron, ShardingLevel::kOptimizer, 1, 4));
  EXPECT_THAT(check(megatron, ShardingLevel::kParameters, 1, 4),
              outside("shards more over groups of ranks than megatron can"));
  const EstimatedOptions titan = HybridOptions(Target::kTorchtitan, 16);
  EXPECT_OK(check(titan, ShardingLevel::kParameters, 4, 8));
  EXPECT_THAT(check(titan, ShardingLevel::kParameters, 4, 2),
              outside("parts ranks of one sequence by its sharding"));
}

}  // namespace
}  // namespace parplan
