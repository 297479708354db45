#include "server/core/execution_core.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/duration_wire.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::StartsWith;

class ExecutionCoreTest : public CoreTest {
 protected:
  void SetUp() override {
    StartMeasured();
    ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(Question()));
    plan_name_ = plan->name();
  }

  absl::StatusOr<v1::Execution> Open(const std::string& request_id = "one") {
    v1::CreateExecutionRequest request;
    request.set_parent(plan_name_);
    request.set_request_id(request_id);
    return core().executions().Create(request);
  }

  static v1::ReportMetricsRequest Window(const std::string& execution, int rank, int64_t first_step,
                                         double seconds) {
    v1::ReportMetricsRequest request;
    request.set_execution(execution);
    v1::MeasuredWindow& window = *request.mutable_window();
    window.set_rank(rank);
    window.set_first_step(first_step);
    window.set_step_count(10);
    const int64_t nanos = static_cast<int64_t>(seconds * 1e9);
    window.mutable_median_step_duration()->set_seconds(nanos / 1000000000);
    window.mutable_median_step_duration()->set_nanos(static_cast<int32_t>(nanos % 1000000000));
    window.set_peak_memory_bytes(1000 + rank);
    return request;
  }

  absl::StatusOr<v1::Execution> Get(const std::string& name) {
    v1::GetExecutionRequest request;
    request.set_name(name);
    return core().executions().Get(request);
  }

  absl::StatusOr<v1::Execution> Complete(const std::string& name) {
    v1::CompleteExecutionRequest request;
    request.set_name(name);
    return core().executions().Complete(request);
  }

  absl::StatusOr<v1::Execution> Fail(const std::string& name) {
    v1::FailExecutionRequest request;
    request.set_name(name);
    request.set_reason("out of memory");
    return core().executions().Fail(request);
  }

  std::string plan_name_;
};

TEST_F(ExecutionCoreTest, OpensWithThePredictionAndARetryFindsTheSame) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution execution, Open());
  EXPECT_EQ(execution.state(), v1::Execution::RUNNING);
  EXPECT_GT(execution.predicted_step_duration().nanos(), 0);
  EXPECT_GT(execution.predicted_peak_memory_bytes(), 0);
  EXPECT_FALSE(execution.has_step_duration_ratio());
  EXPECT_EQ(Open()->name(), execution.name());
  EXPECT_NE(Open("two")->name(), execution.name());
}

TEST_F(ExecutionCoreTest, SetsTheMedianOfAllWindowsBesideThePrediction) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution opened, Open());
  const auto report = core().executions().StartReport();
  const double predicted = opened.predicted_step_duration().nanos() * 1e-9;
  ASSERT_OK(report->Add(Window(opened.name(), 0, 0, predicted)));
  ASSERT_OK(report->Add(Window("", 1, 0, 4 * predicted)));
  ASSERT_OK(report->Add(Window(opened.name(), 2, 0, 2 * predicted)));
  ASSERT_OK(report->Add(Window(opened.name(), 2, 0, 9 * predicted)));
  ASSERT_OK_AND_ASSIGN(const v1::ReportMetricsResponse response, report->Finish());
  EXPECT_EQ(response.stored_window_count(), 3);
  EXPECT_EQ(response.duplicate_window_count(), 1);
  ASSERT_OK_AND_ASSIGN(const v1::Execution measured, Get(opened.name()));
  EXPECT_NEAR(measured.step_duration_ratio(), 2.0, 1e-6);
  EXPECT_EQ(measured.measured_peak_memory_bytes(), 1002);
  EXPECT_EQ(measured.window_count(), 3);
  ASSERT_OK(report->Add(Window(opened.name(), 3, 0, 3 * predicted)));
  EXPECT_NEAR(Get(opened.name())->step_duration_ratio(), 2.5, 1e-6);
  ASSERT_OK(Complete(opened.name()).status());
  EXPECT_EQ(observer.closed()[0].first, true);
  EXPECT_NEAR(*observer.closed()[0].second, 2.5, 1e-6);
  EXPECT_EQ(observer.windows, 4);
}

TEST_F(ExecutionCoreTest, AnExecutionThatIsOpenedAgainHasFiguresOfItsOwn) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution first, Open());
  const double predicted = first.predicted_step_duration().nanos() * 1e-9;
  ASSERT_OK(core().executions().StartReport()->Add(Window(first.name(), 0, 0, 2 * predicted)));
  EXPECT_NEAR(Get(first.name())->step_duration_ratio(), 2.0, 1e-6);
  ASSERT_OK(Complete(first.name()).status());
  clock.Advance(absl::Seconds(1));
  EXPECT_THAT(store().DeleteOldExecutions(clock.Now(), absl::ZeroDuration(), 9), IsOkAndHolds(1));
  ASSERT_OK_AND_ASSIGN(const v1::Execution second, Open());
  ASSERT_EQ(second.name(), first.name());
  ASSERT_OK(core().executions().StartReport()->Add(Window(second.name(), 0, 0, 3 * predicted)));
  EXPECT_NEAR(Get(second.name())->step_duration_ratio(), 3.0, 1e-6);
}

TEST_F(ExecutionCoreTest, KeepsWhatCameBeforeAWindowThatIsWrong) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution opened, Open());
  const auto report = core().executions().StartReport();
  ASSERT_OK(report->Add(Window(opened.name(), 0, 0, 0.1)));
  const absl::Status wrong = report->Add(Window(opened.name(), 8, 0, 0.1));
  EXPECT_THAT(wrong, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(FactOf(wrong, "field"), "window.rank");
  EXPECT_EQ(report->Finish().status(), wrong);
  EXPECT_EQ(Get(opened.name())->window_count(), 1);
  EXPECT_EQ(
      FactOf(core().executions().StartReport()->Add(Window(opened.name(), 0, 9, 0.0)), "field"),
      "window.median_step_duration");
}

TEST_F(ExecutionCoreTest, TakesNoMoreWindowsThanTheLimit) {
  limits.max_window_count = 2;
  SetUp();
  ASSERT_OK_AND_ASSIGN(const v1::Execution opened, Open());
  const auto report = core().executions().StartReport();
  ASSERT_OK(report->Add(Window(opened.name(), 0, 0, 0.1)));
  ASSERT_OK(report->Add(Window(opened.name(), 0, 10, 0.1)));
  EXPECT_EQ(ReasonOf(report->Add(Window(opened.name(), 0, 20, 0.1))), Reason::kUploadTooLarge);
}

TEST_F(ExecutionCoreTest, TakesNoMoreBytesThanTheLimits) {
  limits.max_window_bytes = 300;
  limits.max_execution_bytes = 20000;
  SetUp();
  ASSERT_OK_AND_ASSIGN(const v1::Execution opened, Open());
  // Fields that nobody knows count as well.
  v1::ReportMetricsRequest large = Window(opened.name(), 0, 0, 0.1);
  large.mutable_window()
      ->GetReflection()
      ->MutableUnknownFields(large.mutable_window())
      ->AddLengthDelimited(1000, std::string(300, 'x'));
  const absl::Status too_large = core().executions().StartReport()->Add(large);
  EXPECT_THAT(too_large, StatusIs(absl::StatusCode::kInvalidArgument,
                                  testing::HasSubstr("at most 300 bytes")));
  EXPECT_EQ(FactOf(too_large, "field"), "window");
  absl::Status full;
  const auto report = core().executions().StartReport();
  int count = 0;
  while (full.ok() && ++count < 1000) full = report->Add(Window(opened.name(), 0, count, 0.1));
  EXPECT_EQ(ReasonOf(full), Reason::kUploadTooLarge);
  EXPECT_EQ(FactOf(full, "field"), "window");
  EXPECT_EQ(FactOf(full, "limit"), "20000");
  EXPECT_EQ(Get(opened.name())->window_count(), count - 1);
}

TEST_F(ExecutionCoreTest, ClosesOnceInOneWay) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution one, Open("one"));
  ASSERT_OK_AND_ASSIGN(const v1::Execution closed, Complete(one.name()));
  EXPECT_EQ(closed.state(), v1::Execution::SUCCEEDED);
  EXPECT_OK(Complete(one.name()).status());
  EXPECT_EQ(ReasonOf(Fail(one.name()).status()), Reason::kExecutionState);
  EXPECT_EQ(ReasonOf(core().executions().StartReport()->Add(Window(one.name(), 0, 0, 0.1))),
            Reason::kExecutionState);

  ASSERT_OK_AND_ASSIGN(const v1::Execution two, Open("two"));
  ASSERT_OK_AND_ASSIGN(const v1::Execution failed, Fail(two.name()));
  EXPECT_EQ(failed.state(), v1::Execution::FAILED);
  EXPECT_EQ(failed.failure_reason(), "out of memory");
  EXPECT_OK(Fail(two.name()).status());
  EXPECT_EQ(ReasonOf(Complete(two.name()).status()), Reason::kExecutionState);
  EXPECT_THAT(observer.closed(), ElementsAre(Pair(true, std::nullopt), Pair(false, std::nullopt)));
}

TEST_F(ExecutionCoreTest, NobodyStartsUnderAnExpiredPlanButARetryFindsWhatWasOpened) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution opened, Open("one"));
  clock.Advance(absl::Hours(25));
  EXPECT_EQ(ReasonOf(Open("two").status()), Reason::kPlanExpired);
  EXPECT_EQ(Open("one")->name(), opened.name());
  // A long job reports on after the plan it began with has expired.
  EXPECT_OK(core().executions().StartReport()->Add(Window(opened.name(), 0, 0, 0.1)));
}

// A sidecar kept the report while no server could be reached, and the plan expired meanwhile.
TEST_F(ExecutionCoreTest, AJobThatBeganUnderAValidPlanIsOpenedAfterItsExpiry) {
  const absl::Time issued = clock.Now();
  const auto open_with = [this](const std::string& id, absl::Time start) {
    v1::CreateExecutionRequest request;
    request.set_parent(plan_name_);
    request.set_request_id(id);
    *request.mutable_start_time() = TimestampToProto(start);
    return core().executions().Create(request).status();
  };
  clock.Advance(absl::Hours(25));
  EXPECT_OK(open_with("late", issued + absl::Hours(23)));
  EXPECT_OK(open_with("at-once", issued));
  // The clock of the job's host may be a little slow.
  EXPECT_OK(open_with("slow", issued - absl::Seconds(59)));
  EXPECT_EQ(ReasonOf(open_with("expired", issued + absl::Hours(24))), Reason::kPlanExpired);
  // Times that cannot be make nothing valid, and nothing invalid.
  const absl::Time before = issued - absl::Hours(1);
  const absl::Time after = issued + absl::Hours(48);
  EXPECT_EQ(ReasonOf(open_with("before", before)), Reason::kPlanExpired);
  EXPECT_EQ(ReasonOf(open_with("future", after)), Reason::kPlanExpired);
  clock.Jump(-absl::Hours(24));
  EXPECT_OK(open_with("before", before));
  EXPECT_OK(open_with("future", after));
  v1::CreateExecutionRequest request;
  request.set_parent(plan_name_);
  request.set_request_id("malformed");
  request.mutable_start_time()->set_nanos(-1);
  EXPECT_EQ(ReasonOf(core().executions().Create(request).status()), Reason::kSpecInvalid);
}

TEST_F(ExecutionCoreTest, AClockSetBackEndsNoExecutionBeforeItBegan) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution opened, Open());
  clock.Jump(-absl::Hours(1));
  ASSERT_OK_AND_ASSIGN(const v1::Execution closed, Complete(opened.name()));
  EXPECT_GE(closed.end_time().seconds(), closed.start_time().seconds());
}

TEST_F(ExecutionCoreTest, FailsWhatNobodyReportsTo) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution silent, Open("silent"));
  ASSERT_OK_AND_ASSIGN(const v1::Execution lively, Open("lively"));
  ASSERT_OK_AND_ASSIGN(const v1::Execution done, Open("done"));
  ASSERT_OK(Complete(done.name()).status());
  clock.Advance(absl::Hours(4));
  ASSERT_OK(core().executions().StartReport()->Add(Window(lively.name(), 0, 0, 0.1)));
  clock.Advance(absl::Hours(3));
  ASSERT_OK(core().Maintain());
  ASSERT_OK_AND_ASSIGN(const v1::Execution failed, Get(silent.name()));
  EXPECT_EQ(failed.state(), v1::Execution::FAILED);
  EXPECT_EQ(failed.failure_reason(), "abandoned: no report for 6h");
  EXPECT_GE(failed.end_time().seconds(), failed.start_time().seconds() + 7 * 3600);
  EXPECT_EQ(Get(lively.name())->state(), v1::Execution::RUNNING);
  EXPECT_EQ(Get(done.name())->state(), v1::Execution::SUCCEEDED);
  EXPECT_THAT(observer.closed(), ElementsAre(Pair(true, std::nullopt), Pair(false, std::nullopt)));
}

// Its sidecar was cut off for a day.
TEST_F(ExecutionCoreTest, WhatWasAbandonedRunsAgainWhenWindowsComeAfterAll) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution opened, Open());
  clock.Advance(absl::Hours(24));
  ASSERT_OK(core().Maintain());
  ASSERT_EQ(Get(opened.name())->state(), v1::Execution::FAILED);
  const auto report = core().executions().StartReport();
  ASSERT_OK(report->Add(Window(opened.name(), 0, 0, 0.1)));
  ASSERT_OK(report->Add(Window(opened.name(), 0, 10, 0.1)));
  ASSERT_OK_AND_ASSIGN(const v1::Execution again, Get(opened.name()));
  EXPECT_EQ(again.state(), v1::Execution::RUNNING);
  EXPECT_FALSE(again.has_end_time());
  EXPECT_EQ(again.failure_reason(), "");
  EXPECT_EQ(again.window_count(), 2);
  ASSERT_OK(core().Maintain());
  EXPECT_EQ(Get(opened.name())->state(), v1::Execution::RUNNING);
  ASSERT_OK(Complete(opened.name()).status());
  EXPECT_THAT(observer.closed(),
              ElementsAre(Pair(false, std::nullopt), Pair(true, testing::Ne(std::nullopt))));
}

TEST_F(ExecutionCoreTest, WhatWasAbandonedIsClosedTheWayItsJobSays) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution done, Open("done"));
  ASSERT_OK_AND_ASSIGN(const v1::Execution broken, Open("broken"));
  clock.Advance(absl::Hours(24));
  ASSERT_OK(core().Maintain());
  ASSERT_EQ(Get(done.name())->state(), v1::Execution::FAILED);
  EXPECT_EQ(Complete(done.name())->state(), v1::Execution::SUCCEEDED);
  EXPECT_EQ(Fail(broken.name())->failure_reason(), "out of memory");
  EXPECT_EQ(ReasonOf(Complete(broken.name()).status()), Reason::kExecutionState);
  EXPECT_EQ(observer.closed().size(), 4u);
  EXPECT_OK(Fail(broken.name()).status());
  EXPECT_EQ(observer.closed().size(), 4u);
}

// A sidecar abandons its execution when its pod ends, or when it ends alone.
TEST_F(ExecutionCoreTest, WhatItsReporterAbandonsRunsAgainWhenWindowsCome) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution opened, Open());
  v1::FailExecutionRequest request;
  request.set_name(opened.name());
  request.set_reason("the pod ended");
  request.set_abandoned(true);
  ASSERT_OK_AND_ASSIGN(const v1::Execution failed, core().executions().Fail(request));
  EXPECT_EQ(failed.state(), v1::Execution::FAILED);
  EXPECT_EQ(failed.failure_reason(), "the pod ended");
  // A retry changes nothing.
  request.set_reason("once more");
  EXPECT_EQ(core().executions().Fail(request)->failure_reason(), "the pod ended");
  EXPECT_EQ(observer.closed().size(), 1u);
  ASSERT_OK(core().executions().StartReport()->Add(Window(opened.name(), 0, 0, 0.1)));
  EXPECT_EQ(Get(opened.name())->state(), v1::Execution::RUNNING);
  ASSERT_OK(Complete(opened.name()).status());
  EXPECT_EQ(ReasonOf(core().executions().Fail(request).status()), Reason::kExecutionState);
  // An execution that its job failed stays failed.
  ASSERT_OK_AND_ASSIGN(const v1::Execution broken, Open("broken"));
  ASSERT_OK(Fail(broken.name()).status());
  request.set_name(broken.name());
  EXPECT_EQ(core().executions().Fail(request)->failure_reason(), "out of memory");
  EXPECT_EQ(ReasonOf(core().executions().StartReport()->Add(Window(broken.name(), 0, 0, 0.1))),
            Reason::kExecutionState);
}

TEST_F(ExecutionCoreTest, AServerThatWasAwayGivesExecutionsTheirTimeAgain) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution opened, Open());
  clock.Advance(absl::Hours(100));
  Start(store().OpenAgain());
  ASSERT_OK(core().Maintain());
  EXPECT_EQ(Get(opened.name())->state(), v1::Execution::RUNNING);
  ASSERT_OK(core().executions().StartReport()->Add(Window(opened.name(), 0, 0, 0.1)));
  clock.Advance(limits.longest_execution_silence + absl::Seconds(1));
  ASSERT_OK(core().Maintain());
  EXPECT_EQ(Get(opened.name())->state(), v1::Execution::FAILED);
}

TEST_F(ExecutionCoreTest, MaintenanceComesOftenEnoughForTheSilenceThatIsSet) {
  EXPECT_EQ(core().maintenance_interval(), absl::Hours(1));
  limits.longest_execution_silence = absl::Minutes(12);
  Start();
  EXPECT_EQ(core().maintenance_interval(), absl::Minutes(2));
}

TEST_F(ExecutionCoreTest, WhatIsNotThereIsNotFound) {
  EXPECT_THAT(Get(plan_name_ + "/executions/none"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Get("nonsense"), StatusIs(absl::StatusCode::kInvalidArgument));
  // A missing resource is named by the field of the request that names it.
  EXPECT_THAT(Get(plan_name_ + "/executions/none"),
              StatusIs(absl::StatusCode::kNotFound, StartsWith("`name`: there is no execution ")));
  EXPECT_THAT(
      core().executions().StartReport()->Add(Window(plan_name_ + "/executions/none", 0, 0, 0.1)),
      StatusIs(absl::StatusCode::kNotFound, StartsWith("`execution`: there is no execution ")));
  ASSERT_OK_AND_ASSIGN(const v1::Execution opened, Open());
  ASSERT_OK(Complete(opened.name()).status());
  EXPECT_THAT(core().executions().StartReport()->Add(Window(opened.name(), 0, 0, 0.1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, StartsWith("`execution`: ")));
  plan_name_ = "clusters/synthetic/plans/none";
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound, StartsWith("`parent`: there is no ")));
}

TEST_F(ExecutionCoreTest, ListsNewestFirstWithTheirFigures) {
  ASSERT_OK_AND_ASSIGN(const v1::Execution one, Open("one"));
  ASSERT_OK_AND_ASSIGN(const v1::Execution two, Open("two"));
  ASSERT_OK(core().executions().StartReport()->Add(Window(one.name(), 0, 0, 0.1)));
  v1::ListExecutionsRequest request;
  request.set_parent(plan_name_);
  ASSERT_OK_AND_ASSIGN(const v1::ListExecutionsResponse list, core().executions().List(request));
  ASSERT_EQ(list.executions_size(), 2);
  EXPECT_EQ(list.executions(0).name(), two.name());
  EXPECT_TRUE(list.executions(1).has_step_duration_ratio());
}

}  // namespace
}  // namespace parplan
