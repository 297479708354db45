// Compares the answers of `exact` at every memory limit with all plans.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/planners/exact/exact_search.h"
#include "tests/planner/search/weak_points.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/hand_made_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using enum SearchDimension;

using Front = std::vector<std::pair<Seconds, Bytes>>;

constexpr RandomProblemShape kSmall = {
    .max_layer_count = 4, .max_plan_count = 20'000.0, .memory_binds = false};

// Runtimes of which all memory is in sums over layers: there every answer is proved.
bool SumsAreWhole(const PlanningProblem& problem) {
  const RuntimeTraits& runtime = problem.rules().runtime;
  return !runtime.widens_gradients_in_step && !runtime.flatten_gradient_buckets &&
         !runtime.keep_stage_outputs;
}

// The least time of plans that need at most `usable`, by the front of all; infinite where
// there is none.
double LeastTime(const Front& all, Bytes usable) {
  const auto fits = std::find_if(all.begin(), all.end(),
                                 [usable](const auto& point) { return point.second <= usable; });
  return fits == all.end() ? Seconds::Infinite().value() : fits->first.value();
}

// With exactly the memory of a plan of the front that plan's time is the answer, with a byte
// less that of the next. At such budgets transients, communicators and rounding decide.
TEST(MemoryFront, EveryByteCounts) {
  int64_t budget_count = 0;
  for (uint64_t seed = 20'000; seed < 20'030; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = RandomProblem(seed, kSmall);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const Front all = EveryPlan(problem, costs).front;
    for (const auto& [time, memory] : all) {
      for (const Bytes usable : {memory, memory - Bytes::Of(1)}) {
        SCOPED_TRACE(testing::Message() << usable.count() << " bytes");
        ++budget_count;
        const std::optional<PlanningResult> result =
            SearchExact(problem.WithUsableMemory(usable), costs, {});
        ASSERT_TRUE(result.has_value());
        const double least = LeastTime(all, usable);
        const auto* const found = std::get_if<PlanFound>(&*result);
        if (found == nullptr) {
          EXPECT_FALSE(SumsAreWhole(problem) && least < Seconds::Infinite().value());
          continue;
        }
        EXPECT_LE(found->prediction.peak_memory_upper, usable);
        const double ours = TimePerSample(found->plan, found->prediction).value();
        EXPECT_GE(ours, least * (1 - 1e-9));
        const auto batch = static_cast<double>(found->plan.global_batch_size);
        EXPECT_LE(found->search.bound.value() / batch, least * (1 + 1e-9));
        if (SumsAreWhole(problem)) {
          EXPECT_EQ(found->search.termination, Termination::kOptimal);
        }
        if (found->search.termination == Termination::kOptimal) {
          EXPECT_LE(ours, least * (1 + 1e-9));
        }
      }
    }
  }
  EXPECT_GT(budget_count, 200);
}

// Each plan of a front is the fastest within a hundredth less than the one before needs, and
// behind the last there is none.
TEST(MemoryFront, IsThatOfAllPlansInSteps) {
  int64_t point_count = 0;
  for (uint64_t seed = 21'350; seed < 21'400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem plain = RandomProblem(seed, kSmall);
    PlanningRules rules = plain.rules();
    rules.wants_memory_front = true;
    const PlanningProblem problem = plain.WithRules(rules);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const Front all = EveryPlan(problem, costs).front;
    const std::optional<PlanningResult> result = SearchExact(problem, costs, {});
    const auto* const found = result.has_value() ? std::get_if<PlanFound>(&*result) : nullptr;
    if (found == nullptr) continue;
    // An incomplete answer promises nothing. It is allowed only if the least memory of all plans is
    // not settled.
    if (!found->notes.empty()) {
      EXPECT_FALSE(SumsAreWhole(problem) &&
                   problem.dimensions().has(SearchDimension::kEndStrategies));
      continue;
    }
    const auto below = [](const PredictedPlan& plan) {
      return Bytes::Of(static_cast<int64_t>(plan.prediction.peak_memory_upper.as_double() * 0.99));
    };
    const std::vector<PredictedPlan>& front = found->memory_front;
    ASSERT_FALSE(front.empty());
    for (size_t i = 0; i < front.size(); ++i) {
      const Bytes usable = i == 0 ? problem.usable_memory() : below(front[i - 1]);
      const double least = LeastTime(all, usable);
      EXPECT_NEAR(TimePerSample(front[i].plan, front[i].prediction).value(), least, 1e-9 * least);
      EXPECT_LE(front[i].prediction.peak_memory_upper, usable);
    }
    EXPECT_EQ(LeastTime(all, below(front.back())), Seconds::Infinite().value());
    point_count += static_cast<int64_t>(front.size());
  }
  EXPECT_GT(point_count, 80);
}

// Layers of which one kind has ten times the parameters of the other: gathered whole where
// they are sharded, they need room while the layer runs and at no other time. Budgets from
// the least of all plans up to twice as much, against all plans.
TEST(Transients, OfOneLayerDecideForAll) {
  HandMadeOptions options{
      .layers =
          {{.count = 2, .parameter_count = 24'000'000, .activation_bytes_per_sample = 20'000'000},
           {.count = 2, .parameter_count = 2'400'000, .activation_bytes_per_sample = 40'000'000}},
      .global_batch_size = 8};
  options.rules = RulesOf(
      {kPipeline, kUnevenStages, kPerLayer, kParameterSharding, kGradientSharding, kFullRecompute});
  const PlanningProblem roomy = HandMadeProblem(options);
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(roomy));
  const Bytes least = EveryStage(roomy.WithUsableMemory(Bytes()), costs).smallest_usable_memory;
  std::set<double> steps;
  bool has_gathered = false;
  for (int percent = 100; percent <= 200; percent += 2) {
    SCOPED_TRACE(testing::Message() << percent << " % of the least memory");
    const PlanningProblem problem =
        roomy.WithUsableMemory(Bytes::Of(least.count() * percent / 100));
    const BruteForceAnswer twin = EveryStage(problem, costs);
    const std::optional<PlanningResult> result = SearchExact(problem, costs, {});
    ASSERT_TRUE(twin.best.has_value() && result.has_value());
    const auto* const found = std::get_if<PlanFound>(&*result);
    ASSERT_NE(found, nullptr);
    EXPECT_OK(CheckPlan(problem, found->plan, found->prediction));
    EXPECT_EQ(found->search.termination, Termination::kOptimal);
    EXPECT_NEAR(found->prediction.step / twin.best->prediction.step, 1.0, 1e-9);
    steps.insert(found->prediction.step.value());
    for (const StagePrediction& stage : found->prediction.stages) {
      has_gathered |= stage.memory[MemoryItemKind::kGatheredParameters] > Bytes();
    }
  }
  EXPECT_GT(steps.size(), 5u);
  EXPECT_TRUE(has_gathered);
}

}  // namespace
}  // namespace parplan
