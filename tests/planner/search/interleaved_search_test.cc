#include "planner/search/interleaved_search.h"

#include <algorithm>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The best interleaved plan of all candidates of a problem, and the least of their bounds.
struct BestOfAll {
  std::optional<PredictedPlan> plan;
  double bound = Seconds::Infinite().value();
};

BestOfAll SearchAll(const PlanningProblem& problem, const CostModel& costs) {
  const SearchControl control;
  SearchMeter meter(control);
  const StrategySpace space(problem, costs);
  BestOfAll best;
  for (int64_t batch : problem.GlobalBatchSizes()) {
    for (int depth : space.PipelineDegrees()) {
      for (int64_t count : space.MicroBatchCounts(batch)) {
        if (depth == 1 || count % depth != 0) continue;
        const PipelineCandidate candidate{batch, count, depth, Schedule::kInterleaved};
        const LeastTimes least = LeastTimesOf(problem, costs, space, depth, batch / count);
        if (!least.usable) continue;
        const OptionTable table(problem, costs, space, depth, batch / count);
        if (!table.usable()) continue;
        const PipelineOutcome outcome =
            SearchInterleaved(space, costs, table, candidate, Seconds::Infinite(), 1, meter);
        EXPECT_TRUE(outcome.is_exact);
        if (outcome.plans.empty()) continue;
        const PredictedPlan& plan = outcome.plans.front();
        EXPECT_OK(CheckPlan(problem, plan.plan, plan.prediction));
        EXPECT_TRUE(plan.prediction.fits());
        EXPECT_LE(InterleavedBound(space, least, candidate).value(),
                  plan.prediction.step.value() * (1.0 + 1e-9));
        if (!best.plan || IsBetterPlan(plan, *best.plan)) best.plan = plan;
      }
    }
  }
  return best;
}

TEST(InterleavedSearchTest, IsAsFastAsTheBestOfAllInterleavedPlans) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem any = RandomProblem(seed);
    PlanningRules rules = any.rules();
    if (!any.dimensions().has(SearchDimension::kInterleaved)) continue;
    rules.schedule = Schedule::kInterleaved;
    const PlanningProblem problem = any.WithRules(rules);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    if (!costs.ok()) continue;
    const BruteForceAnswer all = EveryStage(problem, *costs);
    const BestOfAll ours = SearchAll(problem, *costs);
    ASSERT_EQ(ours.plan.has_value(), all.best.has_value());
    if (!all.best) continue;
    ++found;
    const auto time = [](const PredictedPlan& plan) {
      return plan.prediction.step.value() / static_cast<double>(plan.plan.global_batch_size);
    };
    EXPECT_NEAR(time(*ours.plan), time(*all.best), 1e-9 * time(*all.best))
        << PlanGist(ours.plan->plan) << "\n"
        << PlanGist(all.best->plan);
  }
  EXPECT_GT(found, 10);
}

TEST(InterleavedSearchTest, StagesAreEvenWithEndsOnTopOrAsLayers) {
  // An embedding, 6 layers and a head.
  const PlanningProblem problem = EstimatedProblem({.device_count = 8,
                                                    .decoder_count = 6,
                                                    .hidden_size = 1024,
                                                    .attention_head_count = 16,
                                                    .global_batch_size = 16,
                                                    .rules = {.allow_estimates = true}});
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
  const StrategySpace space(problem, costs);
  EXPECT_THAT(EvenPartitions(space, 2), ElementsAre(ElementsAre(4, 4)));
  EXPECT_THAT(EvenPartitions(space, 4), ElementsAre(ElementsAre(2, 2, 2, 2)));
  EXPECT_THAT(EvenPartitions(space, 5), IsEmpty());
  EXPECT_THAT(EvenPartitions(space, 6), ElementsAre(ElementsAre(2, 1, 1, 1, 1, 2)));
  EXPECT_THAT(EvenPartitions(space, 7),
              ElementsAre(ElementsAre(2, 1, 1, 1, 1, 1, 1), ElementsAre(1, 1, 1, 1, 1, 1, 2)));
}

}  // namespace
}  // namespace parplan
