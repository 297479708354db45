#include "planner/planners/exact/steady_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "planner/cost/cost_model.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"
#include "tests/support/large_problem.h"
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

// The same for partitions that are not listed: no plan of them that a search finds, with any number
// of micro-batches, takes less per micro-batch.
TEST(UnevenSteadyBound, IsNoMoreThanAnyStepTakesPerMicroBatch) {
  int found_count = 0;
  int close_count = 0;
  int none_count = 0;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    LargeOptions options =
        RandomLargeOptions(seed, /*max_layer_count=*/16, /*max_device_count=*/16);
    // Tight memory in two of three.
    const int64_t gibibytes[] = {80, 16, 8};
    options.device_memory = Bytes::Of(gibibytes[seed % 3] << 30);
    const PlanningProblem problem = LargeProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    const StrategySpace space(problem, costs);
    const SearchControl control;
    SearchMeter meter(control);
    for (const int depth : space.PipelineDegrees()) {
      if (depth == 1) continue;
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << depth << " stages");
      const OptionTable table(problem, costs, space, depth, /*micro_batch_size=*/1);
      if (!table.usable()) continue;
      const Seconds steady = UnevenSteadyBound(space, costs, table, Seconds::Infinite(), meter);
      if (UnlistedVirtualStageCounts(space, depth).empty()) {
        EXPECT_FALSE(steady.is_finite());
        ++none_count;
        continue;
      }
      for (const int64_t rounds : {1, 2, 7, 40}) {
        const int64_t count = rounds * depth;
        const PipelineCandidate candidate = {count, count, depth, Schedule::kInterleaved};
        int64_t looks_left = 64;
        const PipelineOutcome outcome = SearchUnevenStages(
            space, costs, table, candidate, Seconds::Infinite(), /*wanted=*/1, looks_left, meter);
        if (outcome.plans.empty()) continue;
        ++found_count;
        const auto times = static_cast<double>(count);
        const Seconds step = outcome.plans.front().prediction.step;
        EXPECT_LE(steady * times, step * (1.0 + 1e-9)) << count << " micro-batches";
        if (steady * times >= step * 0.8) ++close_count;
        // A cutoff below the bound is reached, so that it closes candidates.
        const Seconds most = steady * 0.9;
        EXPECT_GE(UnevenSteadyBound(space, costs, table, most, meter), most * (1.0 - 1e-5));
      }
    }
  }
  EXPECT_GT(found_count, 40);
  EXPECT_GT(close_count, found_count / 10);
  EXPECT_GT(none_count, 0);
}

INSTANTIATE_TEST_SUITE_P(Schedules, SteadyBoundTest,
                         testing::Values(Schedule::kOneForwardOneBackward, Schedule::kInterleaved));

}  // namespace
}  // namespace parplan
