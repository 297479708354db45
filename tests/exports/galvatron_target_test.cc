// The space of `--target galvatron` is what its file can say: every answer is written.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "exports/galvatron_plan_export.h"
#include "planner/check/result_check.h"
#include "planner/find_plan.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Returns a random problem as a question for Galvatron.
PlanningProblem ForGalvatron(uint64_t seed) {
  RandomProblemShape shape;
  shape.memory_binds = seed % 4 == 0;
  const PlanningProblem problem = RandomProblem(seed, shape);
  PlanningRules rules = problem.rules();
  rules.target = Target::kGalvatron;
  return problem.WithRules(rules);
}

// Writes all plans of an answer, and returns how many there were.
int WriteAll(const PlanningProblem& problem, const std::string& planner) {
  const absl::StatusOr<PlanningResult> result = FindPlan(problem, planner);
  if (!result.ok()) return 0;
  EXPECT_OK(CheckResult(problem, *result));
  std::vector<Plan> plans;
  if (const auto* const found = std::get_if<PlanFound>(&*result)) {
    plans.push_back(found->plan);
    for (const PredictedPlan& other : found->alternatives) plans.push_back(other.plan);
    for (const PredictedPlan& other : found->memory_front) plans.push_back(other.plan);
  } else if (const auto* const nothing = std::get_if<NothingFits>(&*result)) {
    if (nothing->smallest_plan.has_value()) plans.push_back(*nothing->smallest_plan);
  }
  for (const Plan& plan : plans) {
    EXPECT_OK(ExportGalvatronPlan(plan, problem.model()).status()) << PlanGist(plan);
  }
  return static_cast<int>(plans.size());
}

TEST(GalvatronTarget, ItsExportWritesEveryAnswerOfTheDefaultPlanner) {
  int count = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = ForGalvatron(seed);
    PlanningRules rules = problem.rules();
    rules.top_plan_count = 3;
    rules.wants_memory_front = true;
    count += WriteAll(problem.WithRules(rules), "exact");
  }
  EXPECT_GE(count, 300);
}

TEST(GalvatronTarget, ItsExportWritesEveryAnswerOfOtherPlanners) {
  std::vector<std::string> names = PlannerNames();
  std::erase(names, "exact");
  int count = 0;
  for (uint64_t seed = 1; seed <= 560; ++seed) {
    const std::string& planner = names[seed % names.size()];
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << planner);
    count += WriteAll(ForGalvatron(seed), planner);
  }
  EXPECT_GE(count, 200);
}

}  // namespace
}  // namespace parplan
