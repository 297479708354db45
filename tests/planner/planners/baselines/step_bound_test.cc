#include "planner/planners/baselines/step_bound.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/planners/baselines/candidate_search.h"
#include "planner/planners/baselines/stage_tables.h"
#include "planner/search/base/search_meter.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

TEST(StepLowerBound, IsBelowEveryPlanFound) {
  int found_count = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = SyntheticProblem(RandomSyntheticOptions(seed));
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    for (int64_t degree : Divisors(problem.device_count())) {
      if (degree > problem.max_pipeline_parallel_degree()) break;
      for (int64_t count : Divisors(problem.global_batch_size())) {
        SCOPED_TRACE(testing::Message() << degree << " stages, " << count << " micro-batches");
        const StageTables tables(problem, costs, SearchSpace{}, static_cast<int>(degree), count);
        if (!tables.usable()) continue;
        const SearchControl control;
        SearchMeter meter(control);
        std::optional<PredictedPlan> best;
        const CandidateOutcome outcome = SearchCandidate(problem, costs, tables, meter, best);
        if (!best) {
          EXPECT_GT(outcome.smallest_usable_memory, problem.usable_memory());
          continue;
        }
        ++found_count;
        const int depth = static_cast<int>(degree);
        const Bytes budget =
            costs.group(kFirstGroup)
                .overheads()
                .TensorBudget(problem.usable_memory(), depth, problem.device_count() / depth);
        const Seconds bound = StepLowerBound(tables, budget);
        EXPECT_GT(bound, Seconds());
        EXPECT_LE(bound, best->prediction.step);
        if (degree == 1) {
          EXPECT_EQ(outcome.proved_bound, best->prediction.step);
        }
      }
    }
  }
  EXPECT_GT(found_count, 100);
}

}  // namespace
}  // namespace parplan
