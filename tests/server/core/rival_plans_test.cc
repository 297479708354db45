// Tests the parts of an answer other than its plan: alternative plans, notes, what would suffice if
// nothing fits, and the number of threads.

#include <atomic>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/plan_core.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RivalPlans : public CoreTest {};

TEST_F(RivalPlans, GivesThePlansBesideTheBestAndKeepsThemButNotInLists) {
  StartMeasured();
  planner.change_found = [](PlanFound& found) { found.notes = {"alpha_t 0.5", "alpha_m 0.25"}; };
  v1::CreatePlanRequest question = Question();
  question.mutable_spec()->mutable_options()->set_top_plan_count(3);
  question.mutable_spec()->mutable_options()->set_wants_memory_front(true);
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(question));
  const v1::PlanPayload payload = PayloadOf(*plan);
  ASSERT_EQ(plan->alternatives_size(), 2);
  ASSERT_GE(plan->memory_front_size(), 1);
  const int front_size = plan->memory_front_size();
  EXPECT_EQ(plan->memory_front(0).stages_size(), payload.stages_size());
  EXPECT_EQ(plan->memory_front(0).peak_memory_bytes(), payload.prediction().peak_memory_bytes());
  for (const v1::RivalPlan& rival : plan->alternatives()) {
    EXPECT_GT(rival.stages_size(), 0);
    EXPECT_GT(rival.peak_memory_bytes(), 0);
  }
  EXPECT_THAT(plan->notes(), ElementsAre("alpha_t 0.5", "alpha_m 0.25"));

  ASSERT_OK_AND_ASSIGN(const SharedPlan again, Ask(question));
  EXPECT_TRUE(again->from_cache());
  EXPECT_EQ(again->alternatives_size(), 2);
  v1::CreatePlanRequest for_another = question;
  for_another.set_job_id("job-8");
  ASSERT_OK_AND_ASSIGN(const SharedPlan other, Ask(for_another));
  EXPECT_EQ(other->memory_front_size(), front_size);
  EXPECT_EQ(planner.search_count, 1);

  v1::ListPlansRequest list;
  list.set_parent("clusters/synthetic");
  ASSERT_OK_AND_ASSIGN(const v1::ListPlansResponse listed, core().plans().ListPlans(list));
  for (const v1::Plan& entry : listed.plans()) {
    EXPECT_EQ(entry.alternatives_size() + entry.memory_front_size(), 0);
  }
}

TEST_F(RivalPlans, AskingForMorePlansIsAnotherQuestion) {
  StartMeasured();
  ASSERT_OK(Ask(Question()).status());
  v1::CreatePlanRequest request = Question();
  request.mutable_spec()->mutable_options()->set_top_plan_count(3);
  ASSERT_OK_AND_ASSIGN(const SharedPlan more, Ask(request));
  EXPECT_FALSE(more->from_cache());
  request.mutable_spec()->mutable_options()->set_wants_memory_front(true);
  ASSERT_OK(Ask(request).status());
  request.mutable_spec()->mutable_options()->set_space("all,-gpipe");
  ASSERT_OK(Ask(request).status());
  EXPECT_EQ(planner.search_count, 4);
  // The same space in other words.
  request.mutable_spec()->mutable_options()->set_space("-gpipe");
  ASSERT_OK(Ask(request).status());
  EXPECT_EQ(planner.search_count, 4);
}

TEST_F(RivalPlans, APlannerOfOnePlanRefusesMore) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  v1::PlanningOptions& options = *request.mutable_spec()->mutable_options();
  options.set_planner("galvatron");
  options.set_top_plan_count(3);
  EXPECT_THAT(Ask(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("options.top_plan_count: planner `galvatron`")));
  options.clear_top_plan_count();
  options.set_wants_memory_front(true);
  EXPECT_THAT(Ask(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("options.wants_memory_front: ")));
  options.clear_wants_memory_front();
  // Baselines beside a plan with others are asked for one each.
  options.set_planner("exact");
  options.set_top_plan_count(3);
  options.set_compare_baselines(true);
  EXPECT_OK(Ask(request).status());
}

TEST_F(RivalPlans, ASearchHasAsManyThreadsAsThereAreWorkers) {
  limits.worker_count = 2;
  StartMeasured();
  planner.watch_control = [](const SearchControl& control) {
    ASSERT_TRUE(control.parallel_for != nullptr);
    // Each piece waits for the other: one thread alone would never end.
    std::atomic<int> begun = 0;
    control.parallel_for(2, [&begun](int64_t) {
      ++begun;
      while (begun < 2) std::this_thread::yield();
    });
    EXPECT_EQ(begun, 2);
  };
  ASSERT_OK(Ask(Question()).status());
  limits.worker_count = 1;
  StartMeasured();
  planner.watch_control = [](const SearchControl& control) {
    EXPECT_TRUE(control.parallel_for == nullptr);
  };
  ASSERT_OK(Ask(Question()).status());
  EXPECT_EQ(planner.search_count, 2);
}

}  // namespace
}  // namespace parplan
