#include "planner/planners/exact/pipeline/pipeline_search.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "planner/cost/cost_model.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"
#include "tests/support/random_problem.h"

namespace parplan {
namespace {

// For every candidate of random problems: the quick bound, the bound of the search and its
// plan are in this order, and asking for less than the best finds nothing.
TEST(SearchPipeline, BoundsAndPlansAreInOrder) {
  int plan_count = 0;
  for (uint64_t seed = 9'000; seed < 9'040; ++seed) {
    const PlanningProblem problem = RandomProblem(seed);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const StrategySpace space(problem, *costs);
    const int64_t batch = problem.global_batch_size();
    for (const int degree : space.PipelineDegrees()) {
      for (const int64_t count : space.MicroBatchCounts(batch)) {
        const OptionTable table(problem, *costs, space, degree, batch / count);
        if (!table.usable()) continue;
        for (const Schedule schedule : space.Schedules(degree)) {
          if (schedule == Schedule::kInterleaved) continue;
          SCOPED_TRACE(absl::StrCat("seed ", seed, " P ", degree, " m ", count, " schedule ",
                                    static_cast<int>(schedule)));
          const PipelineCandidate candidate = {batch, count, degree, schedule};
          const SearchControl control;
          SearchMeter meter(control);
          const Seconds quick =
              PipelineBound(space, *costs, table, candidate, Seconds::Infinite(), meter);
          const PipelineOutcome outcome =
              SearchPipeline(space, *costs, table, candidate, Seconds::Infinite(), 1, meter);
          EXPECT_LE(quick, outcome.bound * (1.0 + 1e-9));
          if (outcome.plans.empty()) {
            EXPECT_TRUE(!outcome.is_exact || !outcome.bound.is_finite());
            continue;
          }
          ++plan_count;
          const Seconds step = outcome.plans.front().prediction.step;
          EXPECT_LE(outcome.bound, step * (1.0 + 1e-9));
          EXPECT_TRUE(!outcome.is_exact || outcome.bound >= step * (1.0 - 1e-9));
          const Seconds less = step * (1.0 - 1e-6);
          const PipelineOutcome none =
              SearchPipeline(space, *costs, table, candidate, less, 1, meter);
          EXPECT_TRUE(!outcome.is_exact || none.plans.empty());
          if (outcome.is_exact && none.is_exact) {
            EXPECT_GE(none.bound, less * (1.0 - 1e-9));
          }
          // The second visit of a candidate leaves out what the first one did, and loses nothing.
          const PipelineOutcome tried =
              TryPipeline(space, *costs, table, candidate, Seconds::Infinite(), 1, meter);
          const Seconds cutoff =
              tried.plans.empty() ? Seconds::Infinite() : tried.plans.front().prediction.step;
          const PipelineOutcome rest =
              SearchTriedPipeline(space, *costs, table, candidate, cutoff, 1, meter);
          const Seconds best = rest.plans.empty() ? cutoff : rest.plans.front().prediction.step;
          EXPECT_LE(best, step * (1.0 + 1e-9));
          EXPECT_LE(rest.bound, best * (1.0 + 1e-9));
          if (outcome.is_exact && rest.is_exact) {
            EXPECT_GE(rest.bound, step * (1.0 - 1e-9));
          }
        }
      }
    }
  }
  EXPECT_GE(plan_count, 100);
}

}  // namespace
}  // namespace parplan
