// Executions that ended long ago are deleted, and their plans with them.

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/core/clock_check.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

class RetentionTest : public CoreTest {
 protected:
  // Makes a plan and opens an execution of it.
  void StartExecution() {
    StartMeasured();
    ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(Question()));
    plan_ = plan->name();
    v1::CreateExecutionRequest request;
    request.set_parent(plan_);
    request.set_request_id("one");
    ASSERT_OK_AND_ASSIGN(const v1::Execution execution, core().executions().Create(request));
    execution_ = execution.name();
  }

  void Complete() {
    v1::CompleteExecutionRequest request;
    request.set_name(execution_);
    ASSERT_OK(core().executions().Complete(request).status());
  }

  // Maintains twice, far enough apart that the clock is trusted.
  void MaintainTwice() {
    ASSERT_OK(core().Maintain());
    clock.Advance(ClockCheck::kMinConfirmation);
    ASSERT_OK(core().Maintain());
  }

  // Stores executions of the plan that have ended, one second after the other.
  void AddEnded(int count) {
    for (int i = 0; i < count; ++i) {
      ExecutionRecord record;
      record.name = EndedName(i);
      record.plan = plan_;
      record.state = ExecutionState::kSucceeded;
      record.start_time = clock.Now() - absl::Hours(1);
      record.end_time = record.start_time + absl::Seconds(i);
      ASSERT_OK(store().CreateExecution(record).status());
    }
  }

  std::string EndedName(int number) const {
    return absl::StrCat(plan_, "/executions/ended-", number);
  }
  bool HasEnded(int number) { return store().GetExecution(EndedName(number)).ok(); }
  bool HasExecution() { return store().GetExecution(execution_).ok(); }
  bool HasPlan() { return store().GetPlan(plan_).ok(); }

  std::string plan_;
  std::string execution_;
};

TEST_F(RetentionTest, AnExecutionGoesWithItsPlanWhenItEndedLongAgo) {
  limits.execution_retention = absl::Hours(24 * 90);
  StartExecution();
  Complete();
  clock.Advance(absl::Hours(24 * 90) - absl::Hours(1));
  MaintainTwice();
  EXPECT_TRUE(HasExecution());
  EXPECT_TRUE(HasPlan());
  clock.Advance(absl::Hours(1));
  ASSERT_OK(core().Maintain());
  EXPECT_FALSE(HasExecution());
  EXPECT_FALSE(HasPlan());
}

TEST_F(RetentionTest, OneReadingOfTheClockDeletesNothing) {
  StartExecution();
  Complete();
  // A clock that jumps a decade ahead for a while, and back.
  clock.Jump(absl::Hours(24 * 3650));
  ASSERT_OK(core().Maintain());
  EXPECT_TRUE(HasExecution());
  clock.Jump(-absl::Hours(24 * 3650));
  MaintainTwice();
  EXPECT_TRUE(HasExecution());
  EXPECT_TRUE(HasPlan());
}

TEST_F(RetentionTest, WithoutARetentionExecutionsStay) {
  limits.execution_retention = absl::ZeroDuration();
  StartExecution();
  Complete();
  clock.Advance(absl::Hours(24 * 3650));
  MaintainTwice();
  EXPECT_TRUE(HasExecution());
  EXPECT_TRUE(HasPlan());
}

TEST_F(RetentionTest, AnExecutionThatRunsStays) {
  limits.execution_retention = absl::Hours(1);
  limits.longest_execution_silence = absl::Hours(24 * 366);
  StartExecution();
  clock.Advance(absl::Hours(24 * 100));
  MaintainTwice();
  EXPECT_TRUE(HasExecution());
}

TEST_F(RetentionTest, ManyExecutionsAreDeletedInSeveralCalls) {
  StartExecution();
  AddEnded(2100);
  clock.Advance(absl::Hours(24 * 366));
  MaintainTwice();
  EXPECT_FALSE(HasEnded(0));
  EXPECT_TRUE(HasEnded(2099));
  EXPECT_TRUE(core().has_more_to_maintain());
  ASSERT_OK(core().Maintain());
  EXPECT_FALSE(HasEnded(2099));
  EXPECT_FALSE(core().has_more_to_maintain());
}

TEST_F(RetentionTest, AServerThatEndsDeletesNoMore) {
  StartExecution();
  AddEnded(1);
  clock.Advance(absl::Hours(24 * 366));
  ASSERT_OK(core().Maintain());
  clock.Advance(ClockCheck::kMinConfirmation);
  core().StopTaking();
  ASSERT_OK(core().Maintain());
  EXPECT_TRUE(HasEnded(0));
  EXPECT_FALSE(core().has_more_to_maintain());
}

}  // namespace
}  // namespace parplan
