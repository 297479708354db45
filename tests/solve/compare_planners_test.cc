#include "solve/compare_planners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "planner/find_plan.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using ::testing::ElementsAreArray;

absl::StatusOr<PlanningResult> Find(const PlanningProblem& problem, const std::string& planner) {
  return FindPlan(problem, planner);
}

std::vector<std::string> NamesOf(const std::vector<v1::PlannerComparison>& rows) {
  std::vector<std::string> names;
  for (const v1::PlannerComparison& row : rows) names.push_back(row.planner());
  return names;
}

TEST(CompareWithBaselines, HasARowOfEachInTheOrderOfPlanners) {
  const PlanningProblem problem = SyntheticProblem();
  for (const std::string planner : {"exact", "dp"}) {
    ASSERT_OK_AND_ASSIGN(const PlanningResult result, FindPlan(problem, planner));
    std::vector<std::string> searched;
    ASSERT_OK_AND_ASSIGN(
        const std::vector<v1::PlannerComparison> rows,
        CompareWithBaselines(problem, planner, result,
                             [&searched](const PlanningProblem& asked, const std::string& name) {
                               searched.push_back(name);
                               return Find(asked, name);
                             }));
    std::vector<std::string> expected;
    for (const std::string& name : PlannerNames()) {
      const std::vector<std::string>& baselines = BaselineNames();
      const bool is_baseline =
          std::find(baselines.begin(), baselines.end(), name) != baselines.end();
      if (is_baseline || name == planner) expected.push_back(name);
    }
    EXPECT_THAT(NamesOf(rows), ElementsAreArray(expected));
    // A known planner is not searched again.
    expected.erase(std::find(expected.begin(), expected.end(), planner));
    EXPECT_THAT(searched, ElementsAreArray(expected));
  }
}

TEST(ComparePlanner, AsksForOnePlan) {
  SyntheticOptions options;
  options.rules.top_plan_count = 3;
  options.rules.wants_memory_front = true;
  int plan_count = 0;
  ASSERT_OK_AND_ASSIGN(
      const v1::PlannerComparison row,
      ComparePlanner(SyntheticProblem(options), "dp",
                     [&plan_count](const PlanningProblem& asked, const std::string& name) {
                       plan_count = asked.rules().top_plan_count;
                       EXPECT_FALSE(asked.rules().wants_memory_front);
                       return Find(asked, name);
                     }));
  EXPECT_EQ(plan_count, 1);
  EXPECT_EQ(row.planner(), "dp");
}

TEST(ComparePlanner, WithoutAnyPlanOfItsKindHasARowWithItsName) {
  ASSERT_OK_AND_ASSIGN(
      const v1::PlannerComparison row,
      ComparePlanner(
          SyntheticProblem(), "tp",
          [](const PlanningProblem&, const std::string&) -> absl::StatusOr<PlanningResult> {
            return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan,
                             "more devices than heads");
          }));
  EXPECT_EQ(row.planner(), "tp");
  EXPECT_FALSE(row.feasible());
  EXPECT_FALSE(row.stopped_early());
}

TEST(ComparePlanner, HandsOnOtherErrors) {
  EXPECT_THAT(ComparePlanner(
                  SyntheticProblem(), "tp",
                  [](const PlanningProblem&, const std::string&) -> absl::StatusOr<PlanningResult> {
                    return MakeError(absl::StatusCode::kInternal, Reason::kCheckFailed, "wrong");
                  }),
              StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace parplan
