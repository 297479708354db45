#include "studies/papers/search_times.h"

#include <gtest/gtest.h>

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
  ASSERT_EQ(axes.size(), std::size(kFamilies));
  EXPECT_EQ(axes[0], "other-grid-BERT-Huge-32");
  for (const std::string& axis : axes) {
    const auto questions = QuestionsOfAxis(QuestionAxis(axis));
    ASSERT_EQ(questions.size(), std::size(kGridBudgets)) << axis;
    for (size_t index = 0; index < questions.size(); ++index) {
      EXPECT_EQ(questions[index].first, kGridBudgets[index]);
      EXPECT_EQ(questions[index].second.device_count(), 8);
      EXPECT_EQ(questions[index].second.model().layer_count(),
                ProblemOf({kFamilies[&axis - &axes[0]]}).model().layer_count());
    }
  }
}

TEST(SearchTimes, AxesBesideEachOtherAskTheSameQuestions) {
  EXPECT_EQ(QuestionAxis("other-devices"), "devices");
  EXPECT_EQ(QuestionAxis("granularity"), "layers");
  EXPECT_EQ(QuestionAxis("long"), "layers");
  EXPECT_EQ(QuestionAxis("long-other"), "layers");
  EXPECT_EQ(QuestionAxis("memory"), "memory");
}

}  // namespace
}  // namespace parplan::papers
