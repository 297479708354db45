// Compares plans other than the best one with all plans.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/planners/exact/exact_search.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/brute_force_space.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

double PerSample(const PredictedPlan& plan) {
  return plan.prediction.step.value() / static_cast<double>(plan.plan.global_batch_size);
}

bool HasShape(const Plan& plan, const PlanShape& shape) {
  return plan.global_batch_size == shape.global_batch_size &&
         plan.micro_batch_count == shape.micro_batch_count &&
         plan.pipeline_parallel_degree() == shape.pipeline_parallel_degree &&
         plan.schedule == shape.schedule && plan.virtual_stage_count == shape.virtual_stage_count;
}

// For every batch, depth, number of micro-batches and schedule whose best plan is faster than the
// last returned plan, that best plan is returned.
TEST(OtherPlans, HaveTheBestOfEveryShape) {
  int64_t shape_count = 0;
  for (uint64_t seed = 30'000; seed < 30'060; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem plain =
        RandomProblem(seed, {.max_layer_count = 4, .max_plan_count = 20'000.0});
    PlanningRules rules = plain.rules();
    rules.top_plan_count = seed % 2 == 0 ? 4 : 12;
    const PlanningProblem problem = plain.WithRules(rules);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const std::optional<PlanningResult> result = SearchExact(problem, costs, {});
    const auto* const found = result.has_value() ? std::get_if<PlanFound>(&*result) : nullptr;
    if (found == nullptr || found->search.termination != Termination::kOptimal) continue;
    std::vector<PredictedPlan> plans = {{found->plan, found->prediction}};
    plans.insert(plans.end(), found->alternatives.begin(), found->alternatives.end());
    ASSERT_LE(plans.size(), static_cast<size_t>(rules.top_plan_count));
    const bool is_full = plans.size() == static_cast<size_t>(rules.top_plan_count);
    for (const PredictedPlan& plan : plans) {
      EXPECT_OK(CheckPlan(problem, plan.plan, plan.prediction));
    }
    const std::vector<std::pair<PlanShape, PredictedPlan>> shapes =
        BestOfEveryShape(problem, costs);
    for (const auto& [shape, best] : shapes) {
      // Plans that differ in the size of groups alone are alike.
      const auto is_better_size = [&shape = shape, &best = best](const auto& other) {
        return HasShape(other.second.plan, shape) && PerSample(other.second) < PerSample(best);
      };
      if (std::any_of(shapes.begin(), shapes.end(), is_better_size)) continue;
      if (is_full && PerSample(best) >= PerSample(plans.back()) * (1 - 1e-9)) continue;
      ++shape_count;
      const auto given = std::find_if(
          plans.begin(), plans.end(),
          [&shape = shape](const PredictedPlan& plan) { return HasShape(plan.plan, shape); });
      ASSERT_NE(given, plans.end())
          << PlanGist(best.plan) << ", " << shape.micro_batch_count << " micro-batches";
      EXPECT_NEAR(PerSample(*given), PerSample(best), 1e-9 * PerSample(best))
          << PlanGist(best.plan);
    }
  }
  EXPECT_GT(shape_count, 100);
}

}  // namespace
}  // namespace parplan
