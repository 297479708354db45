#include "planner/planners/exact/first_plan.h"

#include <gmock/gmock.h>

#include "planner/check/plan_check.h"
#include "planner/check/result_check.h"
#include "planner/find_plan.h"
#include "tests/support/large_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Returns what a search that is stopped at its `patience`-th question answers.
absl::StatusOr<PlanningResult> StoppedAnswer(const PlanningProblem& problem, int patience) {
  int questions = 0;
  const SearchControl control{.should_stop = [&] { return ++questions > patience; }};
  return FindPlan(problem, "exact", control);
}

TEST(FindFirstPlan, IsAPlanOfTheSpaceThatFits) {
  int found_count = 0;
  int stopped_count = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = RandomProblem(seed);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_OK(costs);
    const StrategySpace space(problem, *costs);
    const std::optional<PredictedPlan> first = FindFirstPlan(space, *costs);
    if (first.has_value()) {
      ++found_count;
      EXPECT_OK(CheckPlan(problem, first->plan, first->prediction));
      EXPECT_TRUE(first->prediction.fits());
    }
    const absl::StatusOr<PlanningResult> answer = StoppedAnswer(problem, /*patience=*/0);
    if (!answer.ok()) continue;
    EXPECT_OK(CheckResult(problem, *answer));
    if (!std::holds_alternative<PlanFound>(*answer)) continue;
    ++stopped_count;
    const PlanFound& found = std::get<PlanFound>(*answer);
    EXPECT_EQ(found.search.limit, SearchLimit::kTime);
    EXPECT_EQ(found.search.termination, Termination::kFeasible);
  }
  EXPECT_GT(found_count, 100);
  EXPECT_GT(stopped_count, 100);
}

// Whatever the size, a question that has a plan has one at once.
TEST(FindFirstPlan, IsThereWhateverTheSize) {
  int found_count = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LargeOptions options = RandomLargeOptions(seed, /*max_layer_count=*/2048,
                                              /*max_device_count=*/65536);
    const PlanningProblem problem = LargeProblem(options);
    for (const int patience : {0, 3}) {
      ASSERT_OK_AND_ASSIGN(const PlanningResult answer, StoppedAnswer(problem, patience));
      EXPECT_OK(CheckResult(problem, answer));
      found_count += std::holds_alternative<PlanFound>(answer) ? 1 : 0;
    }
  }
  // The others have too little memory for such plans.
  EXPECT_GT(found_count, 100);
}

}  // namespace
}  // namespace parplan
