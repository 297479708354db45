// The plans that `--target megatron` can run: a test for each row of its table in docs/targets.md.

#include <algorithm>
#include <cstdint>
#include <set>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "planner/check/result_check.h"
#include "planner/find_plan.h"
#include "planner/model/pass_order.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/search/space/strategy_space.h"
#include "tests/planner/search/space/space_options.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;

std::vector<Strategy> StrategiesFor(const EstimatedOptions& options, int pipeline_parallel_degree) {
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  return StrategySpace(problem, costs)
      .Strategies(1, pipeline_parallel_degree, options.global_batch_size);
}

PlanFound Found(const PlanningProblem& problem) {
  absl::StatusOr<PlanningResult> result = FindPlan(problem, "exact");
  EXPECT_OK(result);
  EXPECT_OK(CheckResult(problem, *result));
  return std::get<PlanFound>(*std::move(result));
}

TEST(MegatronTarget, HasUnevenStages) {
  EstimatedOptions options = MegatronOptions(7, 4);
  options.rules.schedule = Schedule::kOneForwardOneBackward;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  EXPECT_THAT(StrategySpace(problem, costs).PipelineDegrees(), ElementsAre(1, 2, 4));
}

TEST(MegatronTarget, HasUnevenVirtualStages) {
  const PlanningProblem problem = EstimatedProblem(MegatronOptions(7, 2));
  const CostModel costs = *CostModel::Create(problem);
  const InterleavedPartitions partitions =
      InterleavedPartitionsOf(StrategySpace(problem, costs), 2);
  EXPECT_THAT(partitions.listed,
              Contains(Field(&InterleavedPartition::layer_counts, ElementsAre(3, 3, 2, 1))));
}

TEST(MegatronTarget, InterleavesGroupsOfAnySize) {
  EstimatedOptions options = MegatronOptions(6, 2);
  options.rules.schedule = Schedule::kInterleaved;
  options.global_batch_size = 15;
  options.rules.micro_batch_count = 15;
  const Plan odd = Found(EstimatedProblem(options)).plan;
  EXPECT_EQ(odd.micro_batch_count, 15);
  EXPECT_TRUE(IsGroupSize(odd.micro_batch_group_size, odd.pipeline_parallel_degree(), 15));
  options.rules.dimensions = DimensionSet::All().Without(SearchDimension::kGroupSize);
  EXPECT_THAT(FindPlan(EstimatedProblem(options), "exact"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  // Fewer micro-batches than devices are not interleaved.
  options.rules.dimensions = DimensionSet::All();
  options.rules.micro_batch_count = 1;
  EXPECT_THAT(FindPlan(EstimatedProblem(options), "exact"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  options.rules.schedule = Schedule::kOneForwardOneBackward;
  options.rules.micro_batch_count = 15;
  EXPECT_EQ(Found(EstimatedProblem(options)).plan.micro_batch_count, 15);
}

// Of all plans of small models, groups of any size included, the best is found and proved.
TEST(MegatronTarget, AnswersAsBruteForceWithGroups) {
  int grouped_count = 0;
  for (int trial = 0; trial < 12; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    EstimatedOptions options = MegatronOptions(3 + trial % 3, 2);
    options.global_batch_size = 3 + trial / 3;
    options.vocabulary_size = trial % 2 == 0 ? 2000 : 64'000;
    options.tied_embedding = false;
    options.rules.schedule = Schedule::kInterleaved;
    const PlanningProblem problem = EstimatedProblem(options);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const BruteForceAnswer twin = EveryPlan(problem, costs);
    ASSERT_TRUE(twin.best.has_value());
    const PlanFound found = Found(problem);
    EXPECT_NEAR(found.prediction.step / twin.best->prediction.step, 1.0, 1e-9)
        << PlanGist(found.plan) << " in groups of " << found.plan.micro_batch_group_size
        << " and not " << PlanGist(twin.best->plan) << " in groups of "
        << twin.best->plan.micro_batch_group_size;
    EXPECT_EQ(found.search.termination, Termination::kOptimal);
    if (found.plan.micro_batch_group_size > 0) ++grouped_count;
  }
  EXPECT_GT(grouped_count, 0);
}

TEST(MegatronTarget, HasOneStrategy) {
  const DimensionSet dimensions = LimitsOf(Target::kMegatron).dimensions;
  for (const SearchDimension missing : {SearchDimension::kPerLayer, SearchDimension::kEndStrategies,
                                        SearchDimension::kRankOrder, SearchDimension::kGpipe}) {
    EXPECT_FALSE(dimensions.has(missing)) << SearchDimensionName(missing);
  }
  std::set<RecomputeLevel> levels;
  for (const Strategy& strategy : StrategiesFor(MegatronOptions(6, 4), 1)) {
    EXPECT_EQ(strategy.rank_order, RankOrder::kTensorInnermost);
    levels.insert(strategy.recompute_level);
  }
  EXPECT_THAT(levels, Contains(RecomputeLevel::kFull));
}

TEST(MegatronTarget, ShardsMoreWithoutPipeline) {
  const auto levels = [](int pipeline_parallel_degree) {
    std::set<ShardingLevel> found;
    for (const Strategy& each : StrategiesFor(MegatronOptions(6, 4), pipeline_parallel_degree)) {
      found.insert(each.sharding_level);
    }
    return found;
  };
  EXPECT_THAT(levels(1), ElementsAre(ShardingLevel::kNone, ShardingLevel::kOptimizer,
                                     ShardingLevel::kGradients, ShardingLevel::kParameters));
  EXPECT_THAT(levels(2), ElementsAre(ShardingLevel::kNone, ShardingLevel::kOptimizer));
}

TEST(MegatronTarget, ShardsBesideSequenceParallelism) {
  EstimatedOptions options = MegatronOptions(6, 4);
  const auto shards_beside_tensor = [&options] {
    bool found = false;
    for (const Strategy& each : StrategiesFor(options, 1)) {
      found |= each.tensor_parallel_degree > 1 && each.sharding_level > ShardingLevel::kOptimizer;
    }
    return found;
  };
  EXPECT_TRUE(shards_beside_tensor());
  options.rules.runtime.sequence_parallel = false;
  EXPECT_FALSE(shards_beside_tensor());
}

TEST(MegatronTarget, SplitsSequencesInTwoPartsARank) {
  EstimatedOptions options = MegatronOptions(6, 4);
  // Four ranks of Ulysses could split it, and eight parts cannot.
  options.sequence_length = 1020;
  std::set<int> degrees;
  for (const Strategy& each : StrategiesFor(options, 1)) {
    degrees.insert(each.context_parallel_degree);
  }
  EXPECT_THAT(degrees, ElementsAre(1, 2));
  options.rules.target = Target::kParplan;
  degrees.clear();
  for (const Strategy& each : StrategiesFor(options, 1)) {
    degrees.insert(each.context_parallel_degree);
  }
  EXPECT_THAT(degrees, ElementsAre(1, 2, 4));
}

TEST(MegatronTarget, HasOneExpertDegree) {
  EstimatedOptions options = MegatronOptions(6, 4);
  options.expert_count = 8;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  Strategy one{.data_parallel_degree = 4};
  Strategy four = one;
  four.expert_parallel_degree = 4;
  EXPECT_TRUE(space.GoTogether(1, four, 1, four));
  EXPECT_FALSE(space.GoTogether(1, one, 1, four));
  options.rules.runtime.sequence_parallel = false;
  for (const Strategy& each : StrategiesFor(options, 1)) {
    EXPECT_EQ(each.tensor_parallel_degree, 1);
  }
}

// Returns the number of layers at the beginning of the stage that are recomputed, not counting an
// embedding; -1 if others are too.
int RecomputedAtBeginning(const StagePlan& stage, const ModelSpec& model) {
  int count = 0;
  bool has_ended = false;
  for (const StageLayerRun& run : stage.layer_runs) {
    if (!IsTransformer(model.layer(run.first_layer_index).kind)) continue;
    const bool is_full = run.strategy.recompute_level == RecomputeLevel::kFull;
    if (is_full && has_ended) return -1;
    has_ended |= !is_full;
    if (is_full) count += run.layer_count;
  }
  return count;
}

TEST(MegatronTarget, RecomputesTheFirstLayersOfEachStage) {
  int block_count = 0;
  for (const int decoder_count : {7, 10}) {
    EstimatedOptions options = MegatronOptions(decoder_count, 4);
    const PlanningProblem roomy = EstimatedProblem(options);
    const double most = Found(roomy).prediction.peak_memory_upper.as_double();
    for (double share = 0.3; share < 1.0; share += 0.05) {
      SCOPED_TRACE(testing::Message() << decoder_count << " layers, " << share << " of the memory");
      const PlanningProblem problem = roomy.WithUsableMemory(Bytes::Ceil(most * share));
      PlanningRules rules = problem.rules();
      rules.dimensions = rules.dimensions.Without(SearchDimension::kBlockRecompute);
      const absl::StatusOr<PlanningResult> without = FindPlan(problem.WithRules(rules), "exact");
      ASSERT_OK(without);
      if (!std::holds_alternative<PlanFound>(*without)) continue;
      const PlanFound& other = std::get<PlanFound>(*without);
      const PlanFound found = Found(problem);
      EXPECT_LE(found.prediction.step.value(), other.prediction.step.value() * (1.0 + 1e-9));
      if (found.prediction.step.value() > other.prediction.step.value() * (1.0 - 1e-9)) continue;
      ++block_count;
      EXPECT_THAT(CheckDeclaredSpace(problem.WithRules(rules), found.plan),
                  StatusIs(absl::StatusCode::kInternal));
      int most_layers = 0;
      for (const StagePlan& stage : found.plan.stages) {
        most_layers = std::max(most_layers, RecomputedAtBeginning(stage, problem.model()));
      }
      EXPECT_GT(most_layers, 0);
      for (const StagePlan& stage : found.plan.stages) {
        int layers = 0;
        for (const StageLayerRun& run : stage.layer_runs) {
          if (IsTransformer(problem.model().layer(run.first_layer_index).kind)) {
            layers += run.layer_count;
          }
        }
        EXPECT_EQ(RecomputedAtBeginning(stage, problem.model()), std::min(layers, most_layers));
      }
    }
  }
  EXPECT_GT(block_count, 2);
}

TEST(KnownTargets, LackTheDimensionsOfTheirTables) {
  using enum SearchDimension;
  const auto lacks = [](Target target) {
    std::vector<SearchDimension> missing;
    for (int i = 0; i < kSearchDimensionCount; ++i) {
      const auto dimension = static_cast<SearchDimension>(i);
      if (!LimitsOf(target).dimensions.has(dimension)) missing.push_back(dimension);
    }
    return missing;
  };
  EXPECT_THAT(lacks(Target::kParplan),
              ElementsAre(kGroupSize, kModuleRecompute, kZeroBubble, kHybridSharding));
  EXPECT_THAT(lacks(Target::kMegatron),
              ElementsAre(kPerLayer, kEndStrategies, kRankOrder, kGpipe, kZeroBubble));
  EXPECT_THAT(lacks(Target::kDeepSpeed),
              ElementsAre(kUnevenStages, kPerLayer, kEndStrategies, kRankOrder, kContext,
                          kSelectiveRecompute, kGpipe, kInterleaved, kBlockRecompute, kGroupSize,
                          kModuleRecompute, kExpertTensor, kZeroBubble, kHybridSharding));
  EXPECT_THAT(lacks(Target::kGalvatron),
              ElementsAre(kRankOrder, kOptimizerSharding, kContext, kSelectiveRecompute,
                          kInterleaved, kBlockRecompute, kGroupSize, kModuleRecompute,
                          kExpertTensor, kZeroBubble, kHybridSharding));
  EXPECT_THAT(lacks(Target::kAccelerate),
              ElementsAre(kPipeline, kUnevenStages, kPerLayer, kEndStrategies, kRankOrder,
                          kOptimizerSharding, kGradientSharding, kUlysses, kSelectiveRecompute,
                          kGpipe, kInterleaved, kBlockRecompute, kGroupSize, kModuleRecompute,
                          kExpertTensor, kZeroBubble, kHybridSharding));
  EXPECT_THAT(lacks(Target::kTorchtitan),
              ElementsAre(kPerLayer, kEndStrategies, kRankOrder, kGradientSharding, kUlysses,
                          kSelectiveRecompute, kGpipe, kBlockRecompute, kGroupSize,
                          kModuleRecompute, kExpertTensor, kZeroBubble));
  EXPECT_THAT(lacks(Target::kFsdp2),
              ElementsAre(kUlysses, kGroupSize, kModuleRecompute, kExpertTensor));
}

TEST(KnownTargets, NameRuntimesThatExist) {
  for (const TargetLimits& target : KnownTargets()) {
    EXPECT_NE(FindRuntime(target.runtime_id), nullptr) << target.name;
    EXPECT_EQ(LimitsOf(target.target).name, target.name);
  }
}

// Returns whether some transformer layers are recomputed and others are not.
bool RecomputesSome(const Plan& plan, const ModelSpec& model) {
  std::set<RecomputeLevel> levels;
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      if (!IsTransformer(model.layer(run.first_layer_index).kind)) continue;
      levels.insert(run.strategy.recompute_level);
    }
  }
  return levels.size() > 1;
}

// A target is a part of the space of `parplan`'s executor, but for what shards a tied table, for
// virtual stages that recompute their first layers, for modules and for the size of groups. So its
// plans are never faster than those without it, in time that is proved.
TEST(KnownTargets, FindNothingFasterThanTheWholeSpace) {
  int compared = 0;
  for (uint64_t seed = 61'000; seed < 61'080; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem drawn = RandomProblem(seed, {.max_device_count = 4});
    PlanningRules rules = drawn.rules();
    rules.target = Target::kMegatron;
    rules.dimensions = rules.dimensions.Without(SearchDimension::kGroupSize);
    const absl::StatusOr<PlanningResult> part = FindPlan(drawn.WithRules(rules), "exact");
    if (!part.ok() || !std::holds_alternative<PlanFound>(*part)) continue;
    const auto& found = std::get<PlanFound>(*part);
    EXPECT_OK(CheckResult(drawn.WithRules(rules), *part));
    const ModelSpec& model = drawn.model();
    if (model.layer(model.layer_count() - 1).tied_embedding) continue;
    // Layers of a definition have one strategy in interleaved plans of the whole space.
    if (found.plan.virtual_stage_count > 1 && RecomputesSome(found.plan, model)) continue;
    rules.target = Target::kParplan;
    const absl::StatusOr<PlanningResult> whole = FindPlan(drawn.WithRules(rules), "exact");
    ASSERT_OK(whole);
    ASSERT_TRUE(std::holds_alternative<PlanFound>(*whole));
    const auto& best = std::get<PlanFound>(*whole);
    const auto time = [](const PlanFound& plan) {
      return plan.prediction.step.value() / static_cast<double>(plan.plan.global_batch_size);
    };
    EXPECT_LE(time(best), time(found) * (1.0 + 1e-9));
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

}  // namespace
}  // namespace parplan
