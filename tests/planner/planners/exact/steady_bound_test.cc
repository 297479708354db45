#include "planner/planners/exact/steady_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "planner/cost/cost_model.h"
#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"
#include "tests/support/random_problem.h"

namespace parplan {
namespace {

// The best steps of all numbers of micro-batches of one table, against its steady bound.
struct Steps {
  int found = 0;
  int close = 0;
};

void CompareSteps(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                  Schedule schedule, Steps& steps) {
  const SearchControl control;
  SearchMeter meter(control);
  const int depth = table.pipeline_parallel_degree();
  const Seconds steady = SteadyBound(space, costs, table, schedule, Seconds::Infinite(), meter);
  const auto search = schedule == Schedule::kInterleaved ? SearchInterleaved : SearchPipeline;
  for (const int64_t rounds : {1, 2, 3, 7, 40}) {
    for (int64_t more = 0; more < (schedule == Schedule::kInterleaved ? 1 : depth); ++more) {
      const int64_t count = rounds * depth + more;
      const PipelineCandidate candidate = {count * table.micro_batch_size(), count, depth,
                                           schedule};
      const PipelineOutcome outcome =
          search(space, costs, table, candidate, Seconds::Infinite(), 1, meter);
      if (outcome.plans.empty()) continue;
      ++steps.found;
      const Seconds step = outcome.plans.front().prediction.step;
      const auto times = static_cast<double>(count);
      EXPECT_LE(steady * times, step * (1.0 + 1e-9)) << count << " micro-batches";
      if (steady * times >= step * 0.95) ++steps.close;
      // A bound that is asked to reach something less reaches it, and never goes beyond what
      // is true.
      const Seconds most = step * (0.9 / times);
      const Seconds within = SteadyBound(space, costs, table, schedule, most, meter);
      EXPECT_LE(within * times, step * (1.0 + 1e-9));
      EXPECT_GE(within, std::min(steady, most) * (1.0 - 1e-5));
    }
  }
}

class SteadyBoundTest : public testing::TestWithParam<Schedule> {};

TEST_P(SteadyBoundTest, IsNoMoreThanAnyStepTakesPerMicroBatch) {
  Steps steps;
  // Few random problems have interleaved plans.
  const uint64_t trials = GetParam() == Schedule::kInterleaved ? 120 : 60;
  for (uint64_t seed = 11'000; seed < 11'000 + trials; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    PlanningRules rules = RandomProblem(seed).rules();
    if (!rules.dimensions.has(SearchDimension::kInterleaved) &&
        GetParam() == Schedule::kInterleaved) {
      continue;
    }
    rules.schedule = GetParam();
    rules.micro_batch_count = 0;
    const PlanningProblem problem = RandomProblem(seed).WithRules(rules);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const StrategySpace space(problem, *costs);
    for (const int depth : space.PipelineDegrees()) {
      if (GetParam() == Schedule::kInterleaved && depth == 1) continue;
      for (const int64_t size : {1, 2}) {
        // Others are not measured.
        if (problem.global_batch_size() % size != 0) continue;
        const OptionTable table(problem, *costs, space, depth, size);
        if (table.usable()) CompareSteps(space, *costs, table, GetParam(), steps);
      }
    }
  }
  EXPECT_GT(steps.found, 30);
  EXPECT_GT(steps.close, steps.found / 10);
}

INSTANTIATE_TEST_SUITE_P(Schedules, SteadyBoundTest,
                         testing::Values(Schedule::kOneForwardOneBackward, Schedule::kInterleaved));

}  // namespace
}  // namespace parplan
