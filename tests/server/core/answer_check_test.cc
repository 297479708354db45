// Answers that do not hold what they promise never leave the core.

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/plan_core.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class AnswerCheck : public CoreTest {
 protected:
  // Small, with plans beside the best.
  static SyntheticOptions Small() { return {.device_count = 4, .decoder_count = 2}; }

  v1::CreatePlanRequest RichQuestion() const {
    v1::CreatePlanRequest request = Question(Small());
    request.mutable_spec()->mutable_options()->set_top_plan_count(3);
    request.mutable_spec()->mutable_options()->set_wants_memory_front(true);
    return request;
  }

  // Sends a request and expects an error that names a defect of the planner: counted, not signed,
  // not stored.
  void ExpectRefused(const v1::CreatePlanRequest& request, const char* told) {
    SCOPED_TRACE(told);
    const int64_t searched = planner.search_count;
    const absl::Status refused = Ask(request).status();
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInternal, HasSubstr(told)));
    EXPECT_EQ(ReasonOf(refused), Reason::kCheckFailed);
    EXPECT_EQ(planner.search_count, searched + 1);
    EXPECT_EQ(observer.searches().back().outcome, SearchOutcome::kCheckFailed);
    EXPECT_EQ(*store().CountPlans("synthetic"), 0);
    EXPECT_THAT(observer.plans(), IsEmpty());
  }
};

TEST_F(AnswerCheck, APlanWithAFalsePromiseIsNeitherSignedNorStored) {
  // Keeps the order of the plans, which is looked at first.
  const auto slow_down = [](PredictedPlan& rival) {
    rival.prediction.step = rival.prediction.step * 1.5;
  };
  const std::vector<std::pair<const char*, std::function<void(PlanFound&)>>> mistakes = {
      {"step", [](PlanFound& found) { found.prediction.step = found.prediction.step * 0.5; }},
      {"step", [slow_down](PlanFound& found) { slow_down(found.alternatives.back()); }},
      {"step", [slow_down](PlanFound& found) { slow_down(found.memory_front.back()); }},
      {"above the step", [](PlanFound& found) { found.search.bound = found.search.bound * 2.0; }},
      {"the gap", [](PlanFound& found) { found.search.gap_ratio = 0.25; }},
      {"optimal and stopped", [](PlanFound& found) { found.search.limit = SearchLimit::kTime; }},
      {"twice",
       [](PlanFound& found) {
         found.alternatives.assign(1, {found.plan, found.prediction});
       }},
      {"not slower and smaller",
       [](PlanFound& found) {
         found.memory_front.assign(2, {found.plan, found.prediction});
       }},
  };
  StartMeasured(Small());
  for (const auto& [told, mistake] : mistakes) {
    planner.change_found = mistake;
    ExpectRefused(RichQuestion(), told);
  }
  planner.change_found = nullptr;
  EXPECT_OK(Ask(RichQuestion()).status());
}

// A plan outside the space is no answer within it, however right its numbers are.
TEST_F(AnswerCheck, APlanOutsideTheSpaceAskedForIsNotSigned) {
  StartMeasured(Small());
  v1::CreatePlanRequest narrow = Question(Small());
  narrow.mutable_spec()->mutable_options()->set_space("none");
  planner.change_problem = [](const PlanningProblem& problem) {
    PlanningRules rules = problem.rules();
    rules.dimensions = DimensionSet::All();
    return problem.WithRules(rules);
  };
  ExpectRefused(narrow, "outside its space");
}

TEST_F(AnswerCheck, NothingFitsIsCheckedAsWell) {
  SyntheticOptions options;
  options.device_memory = Bytes::Of(int64_t{64} << 20);
  StartMeasured(options);
  planner.change_result = [](PlanningResult& result) {
    std::get<NothingFits>(result).smallest_usable_memory = Bytes::Of(1 << 20);
  };
  ExpectRefused(Question(options), "nothing fits, but 1048576 bytes would do");
  planner.change_result = nullptr;
  EXPECT_EQ(ReasonOf(Ask(Question(options)).status()), Reason::kNoFeasiblePlan);
}

TEST_F(AnswerCheck, NoBaselineIsSearchedBesideNoPlan) {
  SyntheticOptions options;
  options.device_memory = Bytes::Of(int64_t{64} << 20);
  StartMeasured(options);
  v1::CreatePlanRequest request = Question(options);
  request.mutable_spec()->mutable_options()->set_compare_baselines(true);
  EXPECT_EQ(ReasonOf(Ask(request).status()), Reason::kNoFeasiblePlan);
  EXPECT_EQ(planner.search_count, 1);
}

// A baseline beside the plan that was asked for.
TEST_F(AnswerCheck, AWrongComparisonIsNotTold) {
  StartMeasured(Small());
  v1::CreatePlanRequest request = Question(Small());
  request.mutable_spec()->mutable_options()->set_compare_baselines(true);
  planner.change_found = [](PlanFound& found) {
    if (found.search.limit == SearchLimit::kMethod) found.search.gap_ratio = 2.0;
  };
  const absl::Status status = Ask(request).status();
  EXPECT_EQ(ReasonOf(status), Reason::kCheckFailed);
  EXPECT_EQ(*store().CountPlans("synthetic"), 0);
}

}  // namespace
}  // namespace parplan
