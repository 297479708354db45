#include "planner/planners/exact/block_search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "planner/check/result_check.h"
#include "planner/planners/exact/exact_search.h"
#include "planner/planners/exact/pipeline/block_bound.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using enum SearchDimension;

// Returns whether some, but not all, transformer layers are recomputed.
bool IsOfBlocks(const Plan& plan, const ModelSpec& model) {
  bool recomputes = false;
  bool keeps = false;
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      if (!IsTransformer(model.layer(run.first_layer_index).kind)) continue;
      (run.strategy.recompute_level == RecomputeLevel::kFull ? recomputes : keeps) = true;
    }
  }
  return recomputes && keeps;
}

// Returns the problem of a seed with plans of one strategy, for Megatron-LM or not, and with memory
// between that of the smallest plan and that of the fastest one.
std::optional<PlanningProblem> BlockProblem(uint64_t seed) {
  const PlanningProblem drawn = RandomProblem(
      seed,
      {.max_layer_count = 8, .max_device_count = 4, .max_plan_count = 1e5, .memory_binds = false});
  PlanningRules rules = drawn.rules();
  rules.target = seed % 3 == 0 ? Target::kParplan : Target::kMegatron;
  rules.allow_recompute = true;
  rules.dimensions = DimensionSet::All().Without(kPerLayer).Without(kEndStrategies);
  if (seed % 2 == 0) rules.dimensions = rules.dimensions.Without(kUnevenStages);
  if (rules.target == Target::kMegatron) rules.schedule = std::nullopt;
  const PlanningProblem problem = drawn.WithRules(rules);
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  if (!costs.ok()) return std::nullopt;
  const BruteForceAnswer every = EveryPlan(problem, *costs);
  if (!every.best) return std::nullopt;
  const double least = every.smallest_usable_memory.as_double();
  const double most = every.best->prediction.peak_memory_upper.as_double();
  const double share = 0.1 + 0.1 * static_cast<double>(seed % 8);
  return problem.WithUsableMemory(Bytes::Ceil(least + share * (most - least)));
}

TEST(SearchBlocks, AnswersAsBruteForce) {
  int compared = 0;
  int of_blocks = 0;
  int interleaved = 0;
  for (uint64_t seed = 1; seed <= 480; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::optional<PlanningProblem> problem = BlockProblem(seed);
    if (!problem.has_value()) continue;
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(*problem));
    const BruteForceAnswer twin = EveryPlan(*problem, costs);
    const std::optional<PlanningResult> result = SearchExact(*problem, costs, {});
    ASSERT_TRUE(result.has_value());
    ASSERT_EQ(std::holds_alternative<PlanFound>(*result), twin.best.has_value());
    if (!twin.best) continue;
    const auto& found = std::get<PlanFound>(*result);
    EXPECT_OK(CheckResult(*problem, *result));
    const double best = TimePerSample(twin.best->plan, twin.best->prediction).value();
    const double ours = TimePerSample(found.plan, found.prediction).value();
    EXPECT_GE(ours, best * (1.0 - 1e-9));
    EXPECT_LE(found.search.bound.value() / static_cast<double>(found.plan.global_batch_size),
              best * (1.0 + 1e-9));
    // Other plans may stay unproved where the allocator keeps memory (brute_force_test.cc).
    const RuntimeTraits& runtime = problem->rules().runtime;
    const bool sums_are_whole = !runtime.widens_gradients_in_step &&
                                !runtime.flatten_gradient_buckets && !runtime.keep_stage_outputs;
    const bool twin_has_blocks = IsOfBlocks(twin.best->plan, problem->model());
    if (found.search.termination != Termination::kOptimal && !sums_are_whole && !twin_has_blocks) {
      continue;
    }
    EXPECT_NEAR(ours, best, 1e-9 * best)
        << PlanGist(found.plan) << " and not " << PlanGist(twin.best->plan);
    if (sums_are_whole) {
      EXPECT_EQ(found.search.termination, Termination::kOptimal);
    }
    ++compared;
    if (!twin_has_blocks) continue;
    ++of_blocks;
    // A plan in which one stage recomputes another number of layers is outside the space.
    for (size_t stage = 0;
         IsOfBlocks(found.plan, problem->model()) && stage < found.plan.stages.size(); ++stage) {
      Plan other = found.plan;
      for (StageLayerRun& run : other.stages[stage].layer_runs) {
        if (!IsTransformer(problem->model().layer(run.first_layer_index).kind)) continue;
        run.strategy.recompute_level = RecomputeLevel::kNone;
      }
      const bool changes = !(other == found.plan) && IsOfBlocks(other, problem->model());
      if (changes) {
        EXPECT_FALSE(CheckDeclaredSpace(*problem, other).ok());
      }
    }
    if (twin.best->plan.virtual_stage_count > 1) ++interleaved;
  }
  EXPECT_GT(compared, 120);
  EXPECT_GT(of_blocks, 20);
  EXPECT_GT(interleaved, 0);
}

// Models of so many layers have no bound of a pipeline, and partitions are simulated as 1F1B, which
// keeps fewer micro-batches than GPipe.
TEST(SearchBlocks, PlansOfGpipeWithManyLayersFit) {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = 260;
  options.hidden_size = 2048;
  options.attention_head_count = 16;
  options.sequence_length = 1024;
  options.vocabulary_size = 50257;
  options.global_batch_size = 16;
  options.rules.allow_recompute = true;
  options.rules.schedule = Schedule::kGpipe;
  options.rules.dimensions = DimensionSet::All();
  for (const SearchDimension left_out :
       {kPerLayer, kEndStrategies, kOptimizerSharding, kGradientSharding, kParameterSharding}) {
    options.rules.dimensions = options.rules.dimensions.Without(left_out);
  }
  int found = 0;
  for (const double gigabytes : {42.9, 41.0, 39.0, 37.0}) {
    SCOPED_TRACE(testing::Message() << gigabytes << " GB");
    const PlanningProblem problem =
        EstimatedProblem(options).WithUsableMemory(Bytes::Ceil(gigabytes * 1e9));
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const std::optional<PlanningResult> result = SearchExact(problem, costs, {});
    ASSERT_TRUE(result.has_value());
    EXPECT_OK(CheckResult(problem, *result));
    found += std::holds_alternative<PlanFound>(*result) ? 1 : 0;
  }
  EXPECT_GT(found, 0);
}

// The best plan of a shape is never below the bounds of its choices.
TEST(BlockBound, IsBelowEveryPlan) {
  int plan_count = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::optional<PlanningProblem> problem = BlockProblem(seed);
    if (!problem.has_value()) continue;
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(*problem));
    const StrategySpace space(*problem, costs);
    BlockTables tables;
    const SearchControl control;
    SearchMeter meter(control);
    for (const auto& [shape, best] : BestOfEveryShape(*problem, costs)) {
      if (!IsOfBlocks(best.plan, problem->model())) continue;
      ++plan_count;
      PipelineCandidate candidate{.global_batch_size = shape.global_batch_size,
                                  .micro_batch_count = shape.micro_batch_count,
                                  .pipeline_parallel_degree = shape.pipeline_parallel_degree,
                                  .schedule = shape.schedule};
      const BlockTables::Entry& entry = tables.Of(space, costs, candidate, meter);
      if (shape.virtual_stage_count > 1) candidate.schedule = kDefaultSchedule;
      const PipelineSetting setting(space, costs, entry.table, candidate, problem->usable_memory());
      double least = std::numeric_limits<double>::infinity();
      for (const BlockChoice& choice : entry.choices) {
        least = std::min(
            least, BlockBound(setting, choice, shape.virtual_stage_count, shape.virtual_stage_count)
                       .Bound(std::numeric_limits<double>::infinity()));
      }
      EXPECT_LE(least + costs.step_overhead().value(), best.prediction.step.value() * (1.0 + 1e-9))
          << PlanGist(best.plan);
    }
  }
  EXPECT_GT(plan_count, 20);
}

// Layers that predict further tokens keep what they compute, and other layers do not.
TEST(SearchBlocks, LeavesLayersForFurtherTokens) {
  LayerDefinition layer{.kind = LayerKind::kDecoder};
  EXPECT_TRUE(IsRecomputedInBlocks(layer));
  layer.prediction_depth = 1;
  EXPECT_FALSE(IsRecomputedInBlocks(layer));
  EXPECT_FALSE(IsRecomputedInBlocks({.kind = LayerKind::kEmbedding}));
}

TEST(SearchBlocks, StopsAtALimit) {
  EstimatedOptions options{.device_count = 8,
                           .decoder_count = 12,
                           .hidden_size = 1024,
                           .attention_head_count = 16,
                           .sequence_length = 1024,
                           .global_batch_size = 16};
  options.rules = {.target = Target::kMegatron, .allow_estimates = true};
  const PlanningProblem problem = EstimatedProblem(options);
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
  const SearchControl control{.should_stop = [] { return true; }};
  SearchMeter meter(control);
  meter.ShouldContinue();
  const StrategySpace space(problem, costs);
  BlockTables tables;
  PlanList plans(1);
  EXPECT_EQ(SearchBlocks(space, costs, tables, 1, 0.0, plans, meter), Seconds());
  EXPECT_TRUE(plans.plans().empty());
}

// The dimension has no effect if layers have strategies of their own.
TEST(SearchBlocks, HasNoPlansOfItsOwnLayerByLayer) {
  EXPECT_FALSE(AllowsBlocks(DimensionSet::All()));
  const DimensionSet one = DimensionSet::All().Without(kPerLayer).Without(kEndStrategies);
  EXPECT_TRUE(AllowsBlocks(one));
  EXPECT_FALSE(AllowsBlocks(one.Without(kFullRecompute)));
  EXPECT_FALSE(AllowsBlocks(one.Without(kBlockRecompute)));
  EXPECT_TRUE(AllowsBlocks(LimitsOf(Target::kMegatron).dimensions));
  for (const TargetLimits& target : KnownTargets()) {
    if (target.target == Target::kMegatron) continue;
    EXPECT_FALSE(AllowsBlocks(target.dimensions)) << target.name;
  }
}

}  // namespace
}  // namespace parplan
