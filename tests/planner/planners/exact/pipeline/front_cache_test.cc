#include "planner/planners/exact/pipeline/front_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

// A front can take milliseconds and have few states, so states alone would keep a limit waiting.
TEST(FrontCache, AsksWhetherToGoOnBeforeEachFront) {
  const PlanningProblem problem = SyntheticProblem();
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const StrategySpace space(problem, *costs);
  const int64_t batch = problem.global_batch_size();
  const PipelineCandidate candidate{.global_batch_size = batch,
                                    .micro_batch_count = 2,
                                    .pipeline_parallel_degree = 2,
                                    .schedule = kDefaultSchedule};
  const OptionTable table(problem, *costs, space, candidate.pipeline_parallel_degree, batch / 2);
  ASSERT_TRUE(table.usable());
  const PipelineSetting setting(space, *costs, table, candidate, problem.usable_memory());
  const std::vector<OptionMask> masks = PlanWideMasks(space, table);
  ASSERT_FALSE(masks.empty());

  int asked = 0;
  int most_questions = 3;
  const SearchControl control{.should_stop = [&] { return ++asked > most_questions; }};
  SearchMeter meter(control);
  FrontCache fronts(setting, masks.front(), FrontKeeps::kAll);
  EXPECT_TRUE(fronts.Find(0, 0, 1, {}, meter).is_complete);
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(fronts.Find(0, 0, 2, {}, meter).is_complete);
  EXPECT_EQ(asked, 2);
  // It is there already.
  EXPECT_TRUE(fronts.Find(0, 0, 1, {}, meter).is_complete);
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(fronts.Find(0, 0, 3, {}, meter).is_complete);
  EXPECT_FALSE(fronts.Find(1, 3, problem.model().layer_count(), {}, meter).is_complete);
  EXPECT_TRUE(meter.stopped());
}

}  // namespace
}  // namespace parplan
