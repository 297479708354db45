#include "planner/planners/exact/memory/smallest_memory.h"

#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "planner/cost/predict_plan.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// A device that has room for nothing.
PlanningProblem WithoutRoom(const PlanningProblem& problem) {
  return problem.WithUsableMemory(Bytes::Of(1));
}

TEST(SmallestMemory, IsWhatTheLeastOfAllPlansNeeds) {
  int proved = 0;
  int found_any = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = WithoutRoom(RandomProblem(seed));
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    if (!costs.ok()) continue;
    const BruteForceAnswer all = EveryStage(problem, *costs);
    const SearchControl control;
    SearchMeter meter(control);
    const StrategySpace space(problem, *costs);
    const std::optional<SmallestMemory> smallest = FindSmallestMemory(space, *costs, meter);
    ASSERT_EQ(smallest.has_value(), all.smallest_usable_memory != Bytes::Max());
    if (!smallest) continue;
    ++found_any;
    EXPECT_OK(CheckPlanStructure(problem, smallest->plan)) << PlanGist(smallest->plan);
    EXPECT_LE(PlanEvaluator(problem, *costs).Evaluate(smallest->plan).peak_memory_upper,
              smallest->usable_memory);
    EXPECT_GE(smallest->usable_memory, all.smallest_usable_memory);
    if (!smallest->is_proved) continue;
    ++proved;
    EXPECT_EQ(smallest->usable_memory, all.smallest_usable_memory) << PlanGist(smallest->plan);
    const PlanningProblem less = problem.WithUsableMemory(smallest->usable_memory - Bytes::Of(1));
    EXPECT_NE(AnyPlanFits(StrategySpace(less, *costs), *costs, meter), true);
    const PlanningProblem enough = problem.WithUsableMemory(smallest->usable_memory);
    EXPECT_NE(AnyPlanFits(StrategySpace(enough, *costs), *costs, meter), false);
  }
  std::printf("%d problems, %d proved\n", found_any, proved);
  EXPECT_GT(proved, found_any / 3);
}

TEST(SmallestMemory, TheFewestNodesAreThoseWithWhichAPlanFitsFirst) {
  const PlanningProblem whole = EstimatedProblem({.device_count = 8,
                                                  .decoder_count = 6,
                                                  .hidden_size = 4096,
                                                  .attention_head_count = 32,
                                                  .global_batch_size = 16,
                                                  .rules = {.allow_estimates = true}});
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(whole));
  const SearchControl control;
  SearchMeter meter(control);
  const std::optional<SmallestMemory> smallest =
      FindSmallestMemory(StrategySpace(whole, costs), costs, meter);
  ASSERT_TRUE(smallest.has_value());
  // A little less than one node of them needs.
  const PlanningProblem tight = whole.WithUsableMemory(
      Bytes::Of(static_cast<int64_t>(smallest->usable_memory.as_double() * 0.9)));
  const std::optional<int> count = FindSmallestDeviceCount(tight, meter);
  ASSERT_TRUE(count.has_value());
  const NodeGroup& group = whole.node_group(kFirstGroup);
  ASSERT_EQ(*count % group.devices_per_node, 0);
  for (int nodes = 1; nodes <= *count / group.devices_per_node; ++nodes) {
    const PlanningProblem problem = tight.WithNodeCount(nodes);
    ASSERT_OK_AND_ASSIGN(const CostModel there, CostModel::Create(problem));
    const std::optional<SmallestMemory> least =
        FindSmallestMemory(StrategySpace(problem, there), there, meter);
    const bool fits = least.has_value() && least->usable_memory <= problem.usable_memory();
    EXPECT_EQ(fits, nodes == *count / group.devices_per_node) << nodes;
  }
}

}  // namespace
}  // namespace parplan
