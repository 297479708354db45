// What an answer has beside its plan: other plans, notes, what would do where nothing
// fits, and the threads it took.

#include <atomic>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/plan_core.h"
#include "server/core/plan_search.h"
#include "tests/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RivalPlansTest : public CoreTest {};

TEST_F(RivalPlansTest, TellsThePlansBesideTheBestAndKeepsThemButNotInLists) {
  StartMeasured();
  planner.change_found = [](PlanFound& found) {
    found.alternatives.assign(2, {found.plan, found.prediction});
    found.memory_front.assign(1, {found.plan, found.prediction});
    found.notes = {"alpha_t 0.5", "alpha_m 0.25"};
  };
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(Question()));
  const v1::PlanPayload payload = PayloadOf(*plan);
  ASSERT_EQ(plan->alternatives_size(), 2);
  ASSERT_EQ(plan->memory_front_size(), 1);
  for (const v1::RivalPlan& rival :
       {plan->alternatives(0), plan->alternatives(1), plan->memory_front(0)}) {
    EXPECT_EQ(rival.stages_size(), payload.stages_size());
    EXPECT_EQ(rival.peak_memory_bytes(), payload.prediction().peak_memory_bytes());
  }
  EXPECT_THAT(plan->notes(), ElementsAre("alpha_t 0.5", "alpha_m 0.25"));

  ASSERT_OK_AND_ASSIGN(const SharedPlan again, Ask(Question()));
  EXPECT_TRUE(again->from_cache());
  EXPECT_EQ(again->alternatives_size(), 2);
  v1::CreatePlanRequest for_another = Question();
  for_another.set_job_id("job-8");
  ASSERT_OK_AND_ASSIGN(const SharedPlan other, Ask(for_another));
  EXPECT_EQ(other->memory_front_size(), 1);
  EXPECT_EQ(planner.search_count, 1);

  v1::ListPlansRequest list;
  list.set_parent("clusters/synthetic");
  ASSERT_OK_AND_ASSIGN(const v1::ListPlansResponse listed, core().plans().ListPlans(list));
  for (const v1::Plan& entry : listed.plans()) {
    EXPECT_EQ(entry.alternatives_size() + entry.memory_front_size(), 0);
  }
}

TEST_F(RivalPlansTest, AskingForMorePlansIsAnotherQuestion) {
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

TEST_F(RivalPlansTest, ASearchHasAsManyThreadsAsThereAreWorkers) {
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

TEST(NothingFitsError, NamesTheFewestDevicesWhereThePlannerLooked) {
  const PlanningProblem problem = SyntheticProblem({});
  NothingFits nothing;
  nothing.smallest_device_memory = Bytes::Of(int64_t{3} << 30);
  nothing.memory_is_proved = false;
  const absl::Status without = NothingFitsError(problem, nothing);
  EXPECT_EQ(FactOf(without, "smallestDeviceMemoryBytes"), "3221225472");
  EXPECT_EQ(FactOf(without, "memoryIsProved"), "false");
  EXPECT_EQ(FactOf(without, "smallestDeviceCount"), "");
  nothing.memory_is_proved = true;
  nothing.smallest_device_count = 24;
  const absl::Status with = NothingFitsError(problem, nothing);
  EXPECT_EQ(FactOf(with, "memoryIsProved"), "true");
  EXPECT_EQ(FactOf(with, "smallestDeviceCount"), "24");
  EXPECT_THAT(std::string(with.message()), HasSubstr("at least 24 of these"));
}

}  // namespace
}  // namespace parplan
