// Each planner on small problems of every sort. A sanitizer watches these; the laws that compare
// planners with slow twins would take minutes under one, and run without.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "planner/check/result_check.h"
#include "planner/find_plan.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Returns whether a planner answers a problem with a plan, and checks its answer.
bool Finds(const PlanningProblem& problem, const std::string& planner) {
  SCOPED_TRACE(planner);
  const absl::StatusOr<PlanningResult> result = FindPlan(problem, planner);
  // Planners refuse schedules and dimensions that are not theirs.
  if (!result.ok()) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition) << result.status();
    return false;
  }
  EXPECT_OK(CheckResult(problem, *result));
  return std::holds_alternative<PlanFound>(*result);
}

TEST(EveryPlanner, AnswersRandomProblems) {
  int found_count = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = RandomProblem(seed, {.memory_binds = seed % 3 != 0});
    for (const std::string& planner : PlannerNames()) {
      if (Finds(problem, planner)) ++found_count;
    }
    PlanningRules rules = problem.rules();
    rules.top_plan_count = 3;
    rules.wants_memory_front = true;
    if (Finds(problem.WithRules(rules), "exact")) ++found_count;
  }
  EXPECT_GT(found_count, 50);
}

TEST(EveryPlanner, AnswersWithVirtualStagesOfUnequalLength) {
  int found_count = 0;
  for (const int decoder_count : {8, 9, 23}) {
    SCOPED_TRACE(testing::Message() << decoder_count << " decoder layers");
    EstimatedOptions options{.device_count = 4,
                             .devices_per_node = 4,
                             .decoder_count = decoder_count,
                             .hidden_size = 1024,
                             .attention_head_count = 16,
                             .sequence_length = 512,
                             .vocabulary_size = 50'000,
                             .tied_embedding = false,
                             .global_batch_size = 8};
    options.rules = {.schedule = Schedule::kInterleaved,
                     .dimensions = DimensionSet()
                                       .With(SearchDimension::kPipeline)
                                       .With(SearchDimension::kUnevenStages)
                                       .With(SearchDimension::kInterleaved),
                     .allow_estimates = true};
    const PlanningProblem problem = EstimatedProblem(options);
    for (const std::string& planner : PlannerNames()) {
      if (Finds(problem, planner)) ++found_count;
    }
  }
  EXPECT_GE(found_count, 3);
}

}  // namespace
}  // namespace parplan
