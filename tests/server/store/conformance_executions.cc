// Conformance of every store: executions and their windows.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

// A stored plan and a running execution of it, by name.
struct Running {
  std::string plan = SamplePlan("c", "plan").name;
  std::string execution = SampleExecution(plan, "e").name;
};

Running Start(Store& store) {
  Running running;
  EXPECT_OK(store.PutPlan(SamplePlan("c", "plan")));
  EXPECT_OK(store.CreateExecution(SampleExecution(running.plan, "e")));
  return running;
}

TEST_P(StoreConformance, AnExecutionComesBackExactly) {
  const Running running = Start(store());
  const ExecutionRecord execution = SampleExecution(running.plan, "e");
  EXPECT_THAT(store().GetExecution(execution.name), IsOkAndHolds(execution));
  Reopen();
  EXPECT_THAT(store().GetExecution(execution.name), IsOkAndHolds(execution));
  EXPECT_EQ(ReasonOf(store().GetExecution("none")), Reason::kResourceNotFound);
}

TEST_P(StoreConformance, AnExecutionOfAnUnknownPlanIsRefused) {
  const auto result = store().CreateExecution(SampleExecution("clusters/c/plans/none", "e"));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kNotFound, testing::HasSubstr("plans/none")));
  EXPECT_EQ(ReasonOf(result), Reason::kResourceNotFound);
}

TEST_P(StoreConformance, ARepeatedOpeningGivesTheFirstExecutionAsItIsNow) {
  const Running running = Start(store());
  ASSERT_OK(store().AppendWindows(running.execution, {SampleWindow(0, 0)}, {100}, SampleTime(30)));
  ExecutionRecord again = SampleExecution(running.plan, "again");
  again.request_id = SampleExecution(running.plan, "e").request_id;
  ASSERT_OK_AND_ASSIGN(const ExecutionRecord stored, store().CreateExecution(again));
  EXPECT_EQ(stored.name, running.execution);
  EXPECT_EQ(stored.window_count, 1);
}

TEST_P(StoreConformance, ListsHoldTheExecutionsOfOnePlanNewestFirst) {
  const Running running = Start(store());
  ASSERT_OK(store().PutPlan(SamplePlan("c", "other")));
  const ExecutionRecord second = SampleExecution(running.plan, "e2");
  ASSERT_OK(store().CreateExecution(second));
  ASSERT_OK(store().CreateExecution(SampleExecution(SamplePlan("c", "other").name, "e3")));
  ASSERT_OK_AND_ASSIGN(const auto page, store().ListExecutions(running.plan, {}));
  EXPECT_THAT(page.records, testing::ElementsAre(second, SampleExecution(running.plan, "e")));
}

TEST_P(StoreConformance, AStateChangesOnlyFromTheExpectedOne) {
  const Running running = Start(store());
  ASSERT_OK_AND_ASSIGN(
      const ExecutionRecord failed,
      store().SetExecutionState(running.execution, ExecutionState::kRunning,
                                ExecutionState::kFailed, SampleTime(50), "out of memory"));
  EXPECT_EQ(failed.state, ExecutionState::kFailed);
  EXPECT_EQ(failed.end_time, SampleTime(50));
  EXPECT_EQ(failed.failure_reason, "out of memory");
  EXPECT_THAT(store().GetExecution(running.execution), IsOkAndHolds(failed));

  const auto again = store().SetExecutionState(running.execution, ExecutionState::kRunning,
                                               ExecutionState::kSucceeded, SampleTime(60), "");
  EXPECT_THAT(again, StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("FAILED")));
  EXPECT_EQ(ReasonOf(again), Reason::kExecutionState);
  EXPECT_THAT(store().GetExecution(running.execution), IsOkAndHolds(failed));
  EXPECT_THAT(store().SetExecutionState("none", ExecutionState::kRunning,
                                        ExecutionState::kSucceeded, SampleTime(60), ""),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(StoreConformance, WindowsComeBackByRankThenStep) {
  const Running running = Start(store());
  std::vector<WindowRecord> sent = {SampleWindow(1, 0), SampleWindow(0, 20),
                                    SampleWindow(0, 0, 5000)};
  sent[1].items = std::string("a\0b", 3);
  ASSERT_OK_AND_ASSIGN(const AppendResult result,
                       store().AppendWindows(running.execution, sent, {100}, SampleTime(30)));
  EXPECT_EQ(result.stored_count, 3);
  EXPECT_EQ(result.duplicate_count, 0);
  Reopen();
  EXPECT_THAT(store().WindowCount(running.execution), IsOkAndHolds(3));
  EXPECT_EQ(store().GetExecution(running.execution)->window_count, 3);
  ASSERT_OK_AND_ASSIGN(const auto windows, store().ListWindows(running.execution));
  EXPECT_THAT(windows, testing::ElementsAre(sent[2], sent[1], sent[0]));
}

TEST_P(StoreConformance, FiguresAreWindowsWithoutTheirBytes) {
  const Running running = Start(store());
  WindowRecord window = SampleWindow(3, 40);
  window.items = "phases and memory items";
  ASSERT_OK(store().AppendWindows(running.execution, {window}, {100}, SampleTime(30)));
  window.bytes.clear();
  ASSERT_OK_AND_ASSIGN(const auto figures,
                       store().ListWindows(running.execution, Store::WindowParts::kFigures));
  EXPECT_THAT(figures, testing::ElementsAre(window));
}

TEST_P(StoreConformance, AWindowSentTwiceIsStoredOnce) {
  const Running running = Start(store());
  const WindowRecord first = SampleWindow(0, 0);
  WindowRecord changed = first;
  changed.bytes = "other";
  ASSERT_OK(store().AppendWindows(running.execution, {first}, {100}, SampleTime(30)));
  ASSERT_OK_AND_ASSIGN(
      const AppendResult result,
      store().AppendWindows(running.execution, {changed, SampleWindow(0, 10), SampleWindow(0, 10)},
                            {100}, SampleTime(30)));
  EXPECT_EQ(result.stored_count, 1);
  EXPECT_EQ(result.duplicate_count, 2);
  EXPECT_THAT(store().WindowCount(running.execution), IsOkAndHolds(2));
  EXPECT_EQ(store().ListWindows(running.execution)->front(), first);
}

TEST_P(StoreConformance, AnExecutionTakesUpNoMoreBytesThanTheLimit) {
  const Running running = Start(store());
  WindowRecord large = SampleWindow(0, 1, 1000);
  large.items = "items";
  const int64_t room = ExecutionByteCount(*store().GetExecution(running.execution)) +
                       WindowByteCount(SampleWindow(0, 0)) + WindowByteCount(large);
  const ExecutionLimits enough = {.byte_count = room};
  ASSERT_OK(store().AppendWindows(running.execution, {SampleWindow(0, 0)}, enough, SampleTime(30)));
  const absl::Status refused =
      store()
          .AppendWindows(running.execution, {large}, {.byte_count = room - 1}, SampleTime(30))
          .status();
  EXPECT_EQ(ReasonOf(refused), Reason::kUploadTooLarge);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                testing::HasSubstr(absl::StrCat(room, " bytes, the limit is "))));
  EXPECT_THAT(store().WindowCount(running.execution), IsOkAndHolds(1));
  // Neither the limit itself nor a repetition exceeds it.
  EXPECT_OK(store().AppendWindows(running.execution, {SampleWindow(0, 0), large}, enough,
                                  SampleTime(30)));
  EXPECT_OK(store().AppendWindows(running.execution, {large}, enough, SampleTime(30)));
  EXPECT_THAT(
      store().AppendWindows(running.execution, {SampleWindow(0, 2)}, enough, SampleTime(30)),
      StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_P(StoreConformance, WindowsBeyondTheLimitAreRefusedTogether) {
  const Running running = Start(store());
  ASSERT_OK(store().AppendWindows(running.execution, {SampleWindow(0, 0)}, {2}, SampleTime(30)));
  const auto result = store().AppendWindows(
      running.execution, {SampleWindow(0, 1), SampleWindow(0, 2)}, {2}, SampleTime(30));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(ReasonOf(result), Reason::kUploadTooLarge);
  EXPECT_THAT(store().WindowCount(running.execution), IsOkAndHolds(1));
  EXPECT_EQ(store().ListWindows(running.execution)->size(), 1);
  // The limit itself is allowed, and a repetition needs no room.
  EXPECT_OK(store().AppendWindows(running.execution, {SampleWindow(0, 1)}, {2}, SampleTime(30)));
  EXPECT_EQ(store()
                .AppendWindows(running.execution, {SampleWindow(0, 1)}, {2}, SampleTime(30))
                ->duplicate_count,
            1);
}

TEST_P(StoreConformance, AClosedExecutionTakesNoWindows) {
  const Running running = Start(store());
  ASSERT_OK(store().SetExecutionState(running.execution, ExecutionState::kRunning,
                                      ExecutionState::kSucceeded, SampleTime(50), ""));
  const auto result =
      store().AppendWindows(running.execution, {SampleWindow(0, 0)}, {100}, SampleTime(30));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(ReasonOf(result), Reason::kExecutionState);
}

TEST_P(StoreConformance, WindowsThatAreNewSetWhenAnExecutionReported) {
  const Running running = Start(store());
  EXPECT_EQ(store().GetExecution(running.execution)->report_time, SampleTime(10));
  ASSERT_OK(store().AppendWindows(running.execution, {SampleWindow(0, 0)}, {100}, SampleTime(30)));
  EXPECT_EQ(store().GetExecution(running.execution)->report_time, SampleTime(30));
  // A clock that was set back, and a window that was there before.
  ASSERT_OK(store().AppendWindows(running.execution, {SampleWindow(0, 1)}, {100}, SampleTime(20)));
  ASSERT_OK(store().AppendWindows(running.execution, {SampleWindow(0, 1)}, {100}, SampleTime(40)));
  Reopen();
  EXPECT_EQ(store().GetExecution(running.execution)->report_time, SampleTime(30));
}

TEST_P(StoreConformance, SilentExecutionsFailThoseSilentLongestFirst) {
  const Running running = Start(store());
  for (const int64_t seconds : {60, 20, 40}) {
    ExecutionRecord execution = SampleExecution(running.plan, absl::StrCat("at-", seconds));
    execution.start_time = SampleTime(seconds);
    ASSERT_OK(store().CreateExecution(execution));
  }
  ASSERT_OK(store().AppendWindows(running.execution, {SampleWindow(0, 0)}, {100}, SampleTime(50)));
  ASSERT_OK(store().SetExecutionState(SampleExecution(running.plan, "at-60").name,
                                      ExecutionState::kRunning, ExecutionState::kSucceeded,
                                      SampleTime(70), ""));
  ASSERT_OK_AND_ASSIGN(
      const auto two, store().FailSilentExecutions(SampleTime(50), SampleTime(80), "abandoned", 2));
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].execution_id, "at-20");
  EXPECT_EQ(two[1].execution_id, "at-40");
  EXPECT_EQ(two[1].state, ExecutionState::kFailed);
  EXPECT_EQ(two[1].end_time, SampleTime(80));
  EXPECT_EQ(two[1].failure_reason, "abandoned");
  EXPECT_THAT(store().GetExecution(two[1].name), IsOkAndHolds(two[1]));
  EXPECT_EQ(store().GetExecution(running.execution)->state, ExecutionState::kRunning);
  ASSERT_OK_AND_ASSIGN(const auto rest, store().FailSilentExecutions(SampleTime(50), SampleTime(80),
                                                                     "abandoned", 2));
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].name, running.execution);
  EXPECT_THAT(store().FailSilentExecutions(SampleTime(99), SampleTime(99), "abandoned", 2),
              IsOkAndHolds(testing::IsEmpty()));
}

// An execution that `FailSilentExecutions` failed, with a window of before.
Running Abandon(Store& store) {
  Running running = Start(store);
  EXPECT_OK(store.AppendWindows(running.execution, {SampleWindow(0, 0)}, {100}, SampleTime(30)));
  const auto failed = store.FailSilentExecutions(SampleTime(30), SampleTime(80), "abandoned", 9);
  EXPECT_TRUE(failed.ok() && failed->size() == 1);
  return running;
}

TEST_P(StoreConformance, AnAbandonedExecutionThatReportsRunsAgain) {
  const Running running = Abandon(store());
  Reopen();
  ASSERT_OK_AND_ASSIGN(
      const AppendResult result,
      store().AppendWindows(running.execution, {SampleWindow(0, 0), SampleWindow(0, 10)}, {100},
                            SampleTime(90)));
  EXPECT_EQ(result.stored_count, 1);
  EXPECT_EQ(result.duplicate_count, 1);
  Reopen();
  ExecutionRecord execution = SampleExecution(running.plan, "e");
  execution.window_count = 2;
  execution.report_time = SampleTime(90);
  EXPECT_THAT(store().GetExecution(running.execution), IsOkAndHolds(execution));
  // It is like any other running one: silent from now on, and closed for good by a later call.
  EXPECT_THAT(store().FailSilentExecutions(SampleTime(89), SampleTime(99), "abandoned", 9),
              IsOkAndHolds(testing::IsEmpty()));
  EXPECT_EQ(store().FailSilentExecutions(SampleTime(90), SampleTime(99), "abandoned", 9)->size(),
            1u);
  EXPECT_OK(store().AppendWindows(running.execution, {SampleWindow(0, 20)}, {100}, SampleTime(99)));
  ASSERT_OK(store().SetExecutionState(running.execution, ExecutionState::kRunning,
                                      ExecutionState::kFailed, SampleTime(99), "out of memory"));
  EXPECT_EQ(ReasonOf(store().AppendWindows(running.execution, {SampleWindow(0, 30)}, {100},
                                           SampleTime(99))),
            Reason::kExecutionState);
}

TEST_P(StoreConformance, AnExecutionIsAbandonedByName) {
  const Running running = Start(store());
  ASSERT_OK_AND_ASSIGN(
      const ExecutionRecord abandoned,
      store().SetExecutionState(running.execution, ExecutionState::kRunning,
                                ExecutionState::kAbandoned, SampleTime(80), "the pod ended"));
  EXPECT_EQ(abandoned.state, ExecutionState::kFailed);
  EXPECT_EQ(abandoned.end_time, SampleTime(80));
  EXPECT_EQ(abandoned.failure_reason, "the pod ended");
  Reopen();
  EXPECT_THAT(store().GetExecution(running.execution), IsOkAndHolds(abandoned));
  ASSERT_OK(store().AppendWindows(running.execution, {SampleWindow(0, 0)}, {100}, SampleTime(90)));
  ASSERT_OK_AND_ASSIGN(const ExecutionRecord again, store().GetExecution(running.execution));
  EXPECT_EQ(again.state, ExecutionState::kRunning);
  EXPECT_EQ(again.failure_reason, "");
  // A closed execution is no longer abandoned.
  ASSERT_OK(store().SetExecutionState(running.execution, ExecutionState::kRunning,
                                      ExecutionState::kSucceeded, SampleTime(95), ""));
  EXPECT_EQ(ReasonOf(store().SetExecutionState(running.execution, ExecutionState::kRunning,
                                               ExecutionState::kAbandoned, SampleTime(96), "")),
            Reason::kExecutionState);
}

TEST_P(StoreConformance, WhatChangesNothingLeavesAnExecutionAbandoned) {
  const Running running = Abandon(store());
  ASSERT_OK_AND_ASSIGN(const ExecutionRecord abandoned, store().GetExecution(running.execution));
  ASSERT_OK_AND_ASSIGN(
      const AppendResult repeated,
      store().AppendWindows(running.execution, {SampleWindow(0, 0)}, {100}, SampleTime(90)));
  EXPECT_EQ(repeated.duplicate_count, 1);
  EXPECT_EQ(ReasonOf(store().AppendWindows(running.execution, {SampleWindow(0, 10)}, {1},
                                           SampleTime(90))),
            Reason::kUploadTooLarge);
  EXPECT_EQ(ReasonOf(store().SetExecutionState(running.execution, ExecutionState::kSucceeded,
                                               ExecutionState::kFailed, SampleTime(90), "")),
            Reason::kExecutionState);
  EXPECT_THAT(store().GetExecution(running.execution), IsOkAndHolds(abandoned));
}

TEST_P(StoreConformance, AnAbandonedExecutionIsClosedOnceMoreAndForGood) {
  const Running running = Abandon(store());
  ASSERT_OK_AND_ASSIGN(const ExecutionRecord done,
                       store().SetExecutionState(running.execution, ExecutionState::kRunning,
                                                 ExecutionState::kSucceeded, SampleTime(95), ""));
  EXPECT_EQ(done.state, ExecutionState::kSucceeded);
  EXPECT_EQ(done.end_time, SampleTime(95));
  EXPECT_EQ(done.failure_reason, "");
  Reopen();
  EXPECT_THAT(store().GetExecution(running.execution), IsOkAndHolds(done));
  EXPECT_EQ(ReasonOf(store().SetExecutionState(running.execution, ExecutionState::kRunning,
                                               ExecutionState::kFailed, SampleTime(96), "")),
            Reason::kExecutionState);
  EXPECT_EQ(ReasonOf(store().AppendWindows(running.execution, {SampleWindow(0, 10)}, {100},
                                           SampleTime(96))),
            Reason::kExecutionState);
}

TEST_P(StoreConformance, OldExecutionsGoWithTheirWindowsThoseThatEndedFirstFirst) {
  const PlanRecord plan = SamplePlan("c", "plan");
  ASSERT_OK(store().PutPlan(plan));
  const auto create = [&](const std::string& id, int64_t report_second) {
    const ExecutionRecord execution = SampleExecution(plan.name, id);
    EXPECT_OK(store().CreateExecution(execution));
    EXPECT_OK(store().AppendWindows(execution.name, {SampleWindow(0, 0), SampleWindow(1, 0)}, {},
                                    SampleTime(report_second)));
    return execution.name;
  };
  const auto close = [&](const std::string& name, int64_t end_second) {
    EXPECT_OK(store().SetExecutionState(name, ExecutionState::kRunning, ExecutionState::kSucceeded,
                                        SampleTime(end_second), ""));
  };
  const std::string running = create("running", 30);
  const std::string second = create("second", 30);
  close(second, 45);
  const std::string first = create("first", 30);
  close(first, 40);
  const std::string abandoned = create("abandoned", 20);
  ASSERT_EQ(store().FailSilentExecutions(SampleTime(20), SampleTime(49), "silent", 9)->size(), 1u);
  const std::string young = create("young", 30);
  close(young, 51);
  // Whoever closed it said that it ended before its last report.
  const std::string reported = create("reported", 60);
  close(reported, 40);

  EXPECT_THAT(store().DeleteOldExecutions(SampleTime(44), absl::Seconds(5), 9), IsOkAndHolds(0));
  EXPECT_THAT(store().DeleteOldExecutions(SampleTime(55), absl::Seconds(5), 0), IsOkAndHolds(0));
  EXPECT_THAT(store().DeleteOldExecutions(SampleTime(55), absl::Seconds(5), 2), IsOkAndHolds(2));
  EXPECT_THAT(store().GetExecution(first), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store().GetExecution(second), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(store().GetExecution(abandoned));
  EXPECT_THAT(store().DeleteOldExecutions(SampleTime(55), absl::Seconds(5), 9), IsOkAndHolds(1));
  Reopen();
  EXPECT_THAT(store().ListWindows(abandoned), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store().AppendWindows(abandoned, {SampleWindow(2, 0)}, {}, SampleTime(99)),
              StatusIs(absl::StatusCode::kNotFound));
  int64_t byte_count = 0;
  for (const std::string& name : {running, young, reported}) {
    ASSERT_OK_AND_ASSIGN(const ExecutionRecord execution, store().GetExecution(name));
    byte_count += ExecutionByteCount(execution) + WindowByteCount(SampleWindow(0, 0)) +
                  WindowByteCount(SampleWindow(1, 0));
    EXPECT_EQ(store().ListWindows(name)->size(), 2u);
  }
  EXPECT_EQ(store().Usage({.cluster = "c"})->execution_byte_count, byte_count);
  // The plan stays as long as one of its executions does.
  EXPECT_THAT(store().DeleteExpiredPlans(absl::InfiniteFuture(), 9), IsOkAndHolds(0));
  close(running, 50);
  EXPECT_THAT(store().DeleteOldExecutions(SampleTime(65), absl::Seconds(5), 9), IsOkAndHolds(3));
  EXPECT_THAT(store().DeleteExpiredPlans(absl::InfiniteFuture(), 9), IsOkAndHolds(1));
  EXPECT_THAT(store().Usage({}), IsOkAndHolds(StoredUsage{}));
  // A name that is free again has no windows of before.
  ASSERT_OK(store().PutPlan(plan));
  ASSERT_OK(store().CreateExecution(SampleExecution(plan.name, "first")));
  EXPECT_THAT(store().ListWindows(first), IsOkAndHolds(testing::IsEmpty()));
}

TEST_P(StoreConformance, ADeletionOfExecutionsEndsEarlyIfTheyHaveManyWindows) {
  const PlanRecord plan = SamplePlan("c", "plan");
  ASSERT_OK(store().PutPlan(plan));
  std::vector<WindowRecord> windows;
  for (int64_t step = 0; step < kMaxDeletedWindowCount / 2; ++step) {
    windows.push_back(SampleWindow(0, step, 1));
  }
  for (int i = 0; i < 5; ++i) {
    const ExecutionRecord execution = SampleExecution(plan.name, absl::StrCat(i));
    ASSERT_OK(store().CreateExecution(execution));
    ASSERT_OK(store().AppendWindows(execution.name, windows, {}, SampleTime(20)));
    ASSERT_OK(store().SetExecutionState(execution.name, ExecutionState::kRunning,
                                        ExecutionState::kSucceeded, SampleTime(30 + i), ""));
  }
  for (const int expected : {2, 2, 1, 0}) {
    EXPECT_THAT(store().DeleteOldExecutions(SampleTime(55), absl::Seconds(5), 9),
                IsOkAndHolds(expected));
  }
}

TEST_P(StoreConformance, WindowsOfAnUnknownExecutionAreNotFound) {
  EXPECT_THAT(store().AppendWindows("none", {SampleWindow(0, 0)}, {100}, SampleTime(30)),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store().WindowCount("none"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store().ListWindows("none"), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace parplan
