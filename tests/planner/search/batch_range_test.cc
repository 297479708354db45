// Ranges of batches, against all plans and against each batch by itself.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/planners/exact/exact_search.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Up to six batches, every one or every other.
PlanningProblem RandomRange(uint64_t seed) {
  const PlanningProblem problem = RandomProblem(seed);
  PlanningRules rules = problem.rules();
  rules.micro_batch_count = 0;
  rules.smallest_global_batch_size = std::max<int64_t>(1, problem.global_batch_size() - 5);
  rules.global_batch_size_step = 1 + static_cast<int64_t>(seed % 2);
  return problem.WithRules(rules);
}

TEST(BatchRange, HasTheBestOfAllPlans) {
  int found_count = 0;
  for (uint64_t seed = 50'000; seed < 50'080; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = RandomRange(seed);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const BruteForceAnswer twin = EveryStage(problem, costs);
    const std::optional<PlanningResult> result = SearchExact(problem, costs, {});
    const auto* const found = result.has_value() ? std::get_if<PlanFound>(&*result) : nullptr;
    ASSERT_EQ(found != nullptr, twin.best.has_value());
    if (found == nullptr) continue;
    ++found_count;
    EXPECT_OK(CheckPlan(problem, found->plan, found->prediction));
    const double best = TimePerSample(twin.best->plan, twin.best->prediction).value();
    const double ours = TimePerSample(found->plan, found->prediction).value();
    EXPECT_GE(ours, best * (1 - 1e-9));
    EXPECT_LE(found->search.bound.value() / static_cast<double>(found->plan.global_batch_size),
              best * (1 + 1e-9));
    if (found->search.termination == Termination::kOptimal) {
      EXPECT_LE(ours, best * (1 + 1e-9)) << PlanGist(found->plan);
    }
  }
  EXPECT_GT(found_count, 40);
}

TEST(BatchRange, IsAsFastAsTheBestOfItsBatches) {
  int proved_count = 0;
  for (uint64_t seed = 51'000; seed < 51'040; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = RandomRange(seed);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    double best = std::numeric_limits<double>::infinity();
    bool all_proved = true;
    for (const int64_t batch : problem.GlobalBatchSizes()) {
      const std::optional<PlanningResult> alone =
          SearchExact(problem.WithGlobalBatchSize(batch), costs, {});
      const auto* const found = alone.has_value() ? std::get_if<PlanFound>(&*alone) : nullptr;
      if (found == nullptr) continue;
      all_proved &= found->search.termination == Termination::kOptimal;
      best = std::min(best, TimePerSample(found->plan, found->prediction).value());
    }
    const std::optional<PlanningResult> together = SearchExact(problem, costs, {});
    const auto* const found = together.has_value() ? std::get_if<PlanFound>(&*together) : nullptr;
    ASSERT_EQ(found != nullptr, best < std::numeric_limits<double>::infinity());
    if (found == nullptr || !all_proved) continue;
    if (found->search.termination != Termination::kOptimal) continue;
    ++proved_count;
    EXPECT_NEAR(TimePerSample(found->plan, found->prediction).value(), best, 1e-9 * best);
  }
  EXPECT_GT(proved_count, 20);
}

}  // namespace
}  // namespace parplan
