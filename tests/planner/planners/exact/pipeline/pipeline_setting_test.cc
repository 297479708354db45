#include "planner/planners/exact/pipeline/pipeline_setting.h"

#include <vector>

#include <gtest/gtest.h>

#include "absl/status/statusor.h"
#include "planner/cost/cost_model.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"
#include "tests/support/large_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// The last stage of a pipeline with virtual stages sends to the first. A node has eight devices.
TEST(PipelineSetting, TheLastStageSendsToTheFirst) {
  struct Case {
    int device_count;
    // [stage]
    std::vector<bool> leaves_node;
  };
  for (const Case& c :
       {Case{8, {false, false}}, Case{16, {true, true}}, Case{16, {false, true, false, true}}}) {
    const auto depth = static_cast<int>(c.leaves_node.size());
    SCOPED_TRACE(testing::Message() << c.device_count << " devices, depth " << depth);
    const PlanningProblem problem = LargeProblem({.device_count = c.device_count});
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_OK(costs.status());
    const StrategySpace space(problem, *costs);
    const PipelineCandidate candidate{
        .global_batch_size = 512, .micro_batch_count = 64, .pipeline_parallel_degree = depth};
    const OptionTable table(problem, *costs, space, depth, 512 / 64);
    const PipelineSetting setting(space, *costs, table, candidate, problem.usable_memory());
    for (int stage = 0; stage < depth; ++stage) {
      EXPECT_EQ(setting.stage(stage).leaves_node, c.leaves_node[stage]) << "stage " << stage;
    }
  }
}

}  // namespace
}  // namespace parplan
