#include "tests/support/brute_force_plans.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/plan_check.h"
#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/exact_search.h"
#include "planner/search/space/strategy_space.h"
#include "tests/support/brute_force_menus.h"
#include "tests/support/brute_force_space.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/sample_layers.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// The quicker twin is judged by the plain one.
TEST(EveryStage, FindsWhatEveryPlanFinds) {
  int found_count = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem =
        RandomProblem(seed, {.max_layer_count = 4, .max_plan_count = 20'000.0});
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const BruteForceAnswer every = EveryPlan(problem, costs);
    const BruteForceAnswer stages = EveryStage(problem, costs);
    EXPECT_EQ(every.smallest_usable_memory, stages.smallest_usable_memory);
    ASSERT_EQ(every.best.has_value(), stages.best.has_value());
    if (!every.best) continue;
    ++found_count;
    const double batch = static_cast<double>(every.best->plan.global_batch_size);
    const double other_batch = static_cast<double>(stages.best->plan.global_batch_size);
    EXPECT_NEAR(every.best->prediction.step.value() / batch,
                stages.best->prediction.step.value() / other_batch,
                1e-12 * every.best->prediction.step.value() / batch);
    EXPECT_OK(CheckPlan(problem, every.best->plan, every.best->prediction));
    EXPECT_OK(CheckPlan(problem, stages.best->plan, stages.best->prediction));
  }
  EXPECT_GT(found_count, 30);
}

// Two lists of the same strategies, written apart.
TEST(StrategySpace, HasTheStrategiesOfTheDeclaredSpace) {
  int64_t strategy_count = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = RandomProblem(
        seed, {.max_plan_count = 1e12, .max_strategy_count = 200, .memory_binds = false});
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const StrategySpace space(problem, costs);
    for (const PlanShape& shape : ShapesOf(problem)) {
      for (int definition : problem.model().definition_of_layer()) {
        std::vector<Strategy> ours = StrategiesOf(problem, costs, definition, shape);
        std::sort(ours.begin(), ours.end());
        strategy_count += static_cast<int64_t>(ours.size());
        EXPECT_EQ(ours, space.Strategies(definition, shape.pipeline_parallel_degree,
                                         shape.micro_batch_size()));
      }
    }
  }
  EXPECT_GT(strategy_count, 10'000);
}

// Windows, latent attention, state spaces and layers of one part: the same strategies and the same
// answer as all plans one after the other.
TEST(SearchExact, AnswersAsBruteForceForLayersOfEveryStructure) {
  for (const LayerDefinition& layer : LayersOfAllStructures(64)) {
    if (layer.kind == LayerKind::kOpaque || layer.prediction_depth > 0) continue;
    SCOPED_TRACE(layer.layer_definition_id);
    const PlanningProblem problem = EstimatedProblemOf(layer, 1, 2, 2);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const StrategySpace space(problem, costs);
    for (const PlanShape& shape : ShapesOf(problem)) {
      std::vector<Strategy> ours = StrategiesOf(problem, costs, 1, shape);
      std::sort(ours.begin(), ours.end());
      EXPECT_EQ(ours,
                space.Strategies(1, shape.pipeline_parallel_degree, shape.micro_batch_size()));
    }
    const BruteForceAnswer every = EveryPlan(problem, costs);
    const std::optional<PlanningResult> result = SearchExact(problem, costs, {});
    ASSERT_TRUE(result.has_value());
    const auto* const found = std::get_if<PlanFound>(&*result);
    ASSERT_EQ(found != nullptr, every.best.has_value());
    if (found == nullptr) continue;
    EXPECT_NEAR(found->prediction.step / every.best->prediction.step, 1.0, 1e-9);
    EXPECT_OK(CheckPlan(problem, found->plan, found->prediction));
  }
}

// Seeds of problems, from this one on.
class ExactTwin : public testing::TestWithParam<uint64_t> {
 public:
  static constexpr uint64_t kSeedsEach = 50;
};

// `exact` answers as looking at all plans does.
TEST_P(ExactTwin, AnswersAsBruteForce) {
  for (uint64_t seed = GetParam(); seed < GetParam() + kSeedsEach; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = RandomProblem(seed);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const BruteForceAnswer twin = EveryStage(problem, costs);
    const std::optional<PlanningResult> result = SearchExact(problem, costs, {});
    if (twin.smallest_usable_memory == Bytes::Max()) {
      EXPECT_FALSE(result.has_value());
      continue;
    }
    ASSERT_TRUE(result.has_value());
    if (!twin.best) {
      const auto* nothing = std::get_if<NothingFits>(&*result);
      ASSERT_NE(nothing, nullptr);
      EXPECT_GE(nothing->smallest_usable_memory, twin.smallest_usable_memory);
      if (nothing->memory_is_proved) {
        EXPECT_EQ(nothing->smallest_usable_memory.count(), twin.smallest_usable_memory.count());
      }
      continue;
    }
    // Placeholders of weight gradients are in no sum over layers (docs/search.md), so where a plan
    // fits with megabytes to spare at most, the search may miss it; it then proves nothing.
    if (const auto* nothing = std::get_if<NothingFits>(&*result)) {
      ASSERT_TRUE(problem.rules().runtime.keeps_placeholder_gradients);
      EXPECT_FALSE(nothing->memory_is_proved);
      EXPECT_LE(nothing->smallest_usable_memory.as_double(),
                1.001 * problem.usable_memory().as_double());
      continue;
    }
    const auto* found = std::get_if<PlanFound>(&*result);
    ASSERT_NE(found, nullptr) << "brute force finds " << PlanGist(twin.best->plan);
    EXPECT_OK(CheckPlan(problem, found->plan, found->prediction));
    const double best = TimePerSample(twin.best->plan, twin.best->prediction).value();
    const double ours = TimePerSample(found->plan, found->prediction).value();
    EXPECT_LE(found->search.bound.value() / static_cast<double>(found->plan.global_batch_size),
              best * (1.0 + 1e-9));
    // The allocator's reserve is in no sum over layers, so a proof may fail there.
    const RuntimeTraits& runtime = problem.rules().runtime;
    const bool sums_are_whole = !runtime.widens_gradients_in_step &&
                                !runtime.flatten_gradient_buckets && !runtime.keep_stage_outputs;
    if (found->search.termination != Termination::kOptimal && !sums_are_whole) {
      EXPECT_GE(ours, best * (1.0 - 1e-9));
      continue;
    }
    EXPECT_NEAR(ours, best, 1e-9 * best)
        << PlanGist(found->plan) << " and not " << PlanGist(twin.best->plan) << ", batch "
        << twin.best->plan.global_batch_size << ", micro-batches "
        << twin.best->plan.micro_batch_count << ", schedule "
        << static_cast<int>(twin.best->plan.schedule) << ", virtual stages "
        << twin.best->plan.virtual_stage_count;
    EXPECT_EQ(found->search.termination, Termination::kOptimal);
    EXPECT_LE(found->search.bound.value(), found->prediction.step.value());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExactTwin,
                         testing::Range(uint64_t{1}, uint64_t{1001}, ExactTwin::kSeedsEach));

}  // namespace
}  // namespace parplan
