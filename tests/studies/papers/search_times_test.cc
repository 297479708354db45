#include "studies/papers/search_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planner/find_plan.h"
#include "studies/papers/grid.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

TEST(SearchTimes, EveryPlannerIsTimedOnEachAxis) {
  for (const char* const axis : {"layers", "devices", "memory", "strategies"}) {
    std::set<std::string> asked;
    for (const std::string& planner : TimedPlanners()) asked.insert(planner);
    for (const std::string& planner : OtherPlanners(absl::StrCat("other-", axis))) {
      EXPECT_TRUE(asked.insert(planner).second) << planner << " stands in both tables";
    }
    // Searches that end early there have a table of long ones.
    for (const std::string& planner : TimedPlanners()) {
      const std::vector<std::string> longer = LongPlanners();
      EXPECT_EQ(std::count(longer.begin(), longer.end(), planner), 1) << planner;
    }
    for (const std::string& planner : LongPlanners()) asked.insert(planner);
    for (const std::string& planner : PlannerNames()) EXPECT_TRUE(asked.count(planner)) << planner;
  }
}

TEST(SearchTimes, EveryPlannerHasAPlaceInTheGrid) {
  for (const std::string& axis : OtherGridAxes()) {
    std::set<std::string> asked;
    for (const std::string& planner : StudyPlanners()) asked.insert(planner);
    for (const std::string& planner : OtherPlanners(axis)) {
      EXPECT_TRUE(asked.insert(planner).second) << planner << " stands in both tables";
    }
    for (const std::string& planner : PlannerNames()) EXPECT_TRUE(asked.count(planner)) << planner;
  }
}

TEST(SearchTimes, AxesOfTheGridAskItsQuestions) {
  const std::vector<std::string> axes = OtherGridAxes();
  const std::vector<GridQuestion> cells = GridQuestions();
  ASSERT_EQ(axes.size() * std::size(kGridBudgets), cells.size());
  EXPECT_EQ(axes[0], "other-grid-BERT-Huge-32-8");
  size_t asked = 0;
  for (const std::string& axis : axes) {
    for (const auto& [memory_gb, problem] : QuestionsOfAxis(QuestionAxis(axis))) {
      ASSERT_LT(asked, cells.size());
      const GridQuestion& cell = cells[asked++];
      EXPECT_EQ(memory_gb, cell.memory_gb) << axis;
      EXPECT_EQ(problem.device_count(), cell.device_count) << axis;
      EXPECT_EQ(problem.model().layer_count(), ProblemOf(cell).model().layer_count()) << axis;
    }
  }
  EXPECT_EQ(asked, cells.size());
}

TEST(SearchTimes, AxesBesideEachOtherAskTheSameQuestions) {
  EXPECT_EQ(QuestionAxis("other-devices"), "devices");
  EXPECT_EQ(QuestionAxis("granularity"), "layers");
  EXPECT_EQ(QuestionAxis(kLongGranularity), "layers");
  EXPECT_EQ(QuestionAxis("long-layers"), "layers");
  EXPECT_EQ(QuestionAxis("long-strategies"), "strategies");
  EXPECT_EQ(QuestionAxis("other-grid-T5-512/4-32-8"), "grid-T5-512/4-32-8");
  EXPECT_EQ(QuestionAxis("memory"), "memory");
}

TEST(SearchTimes, AxesHaveTheirLimits) {
  EXPECT_EQ(LimitOfAxis("layers"), kSearchSeconds);
  EXPECT_EQ(LimitOfAxis("granularity"), kSearchSeconds);
  EXPECT_EQ(LimitOfAxis("other-layers"), kOtherSearchSeconds);
  EXPECT_EQ(LimitOfAxis("other-grid-BERT-Huge-32-64"), kGridSearchSeconds);
  EXPECT_EQ(LimitOfAxis(kLongGranularity), kLongSearchSeconds);
  for (const char* const axis : kLongAxes) EXPECT_EQ(LimitOfAxis(axis), kLongSearchSeconds);
}

// The objective of `min-memory-ilp` is measured beside its time.
TEST(TimeSearch, HasTheMemoryOfThePlan) {
  const PlanningProblem problem =
      ProblemOf(ModelOf(Family::kBert, 8), {.count = 2, .memory_gb = 16}, {0, 4});
  const TimedSearch fastest = TimeSearch(problem, "exact");
  EXPECT_GT(fastest.memory_gib, 1.0);
  EXPECT_LE(fastest.memory_gib, 16.0);
  for (const std::string& planner : ProgramPlanners()) {
    const TimedSearch timed = TimeSearch(problem, planner, 10.0);
    EXPECT_GT(timed.memory_gib, 0.0) << planner;
    if (MinimisesMemory(planner)) {
      EXPECT_LE(timed.memory_gib, fastest.memory_gib);
    }
  }
}

}  // namespace
}  // namespace parplan::papers
