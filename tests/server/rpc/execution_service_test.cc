#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;

v1::MeasuredWindow Window(int rank, int64_t first_step) {
  v1::MeasuredWindow window;
  window.set_rank(rank);
  window.set_first_step(first_step);
  window.set_step_count(10);
  window.mutable_median_step_duration()->set_nanos(50'000'000);
  window.set_peak_memory_bytes(1 << 30);
  return window;
}

// A harness with a plan that is being executed.
class ExecutionServiceTest : public testing::Test {
 protected:
  explicit ExecutionServiceTest(const Limits& limits = RpcHarness::TestLimits())
      : harness_(limits) {}

  void SetUp() override {
    ASSERT_OK(harness_.UploadSmallProfile());
    ASSERT_OK_AND_ASSIGN(plan_, harness_.plans().CreatePlan(SmallQuestion()));
    v1::CreateExecutionRequest request;
    request.set_parent(plan_.name());
    ASSERT_OK_AND_ASSIGN(execution_, harness_.executions().Create(request));
  }

  absl::StatusOr<v1::Execution> Complete() {
    v1::CompleteExecutionRequest request;
    request.set_name(execution_.name());
    return harness_.executions().Complete(request);
  }
  absl::StatusOr<v1::Execution> Fail() {
    v1::FailExecutionRequest request;
    request.set_name(execution_.name());
    request.set_reason("a rank was lost");
    return harness_.executions().Fail(request);
  }

  RpcHarness harness_;
  v1::Plan plan_;
  v1::Execution execution_;
};

class FewWindowsTest : public ExecutionServiceTest {
 protected:
  FewWindowsTest() : ExecutionServiceTest(FewWindows()) {}
  static Limits FewWindows() {
    Limits limits = RpcHarness::TestLimits();
    limits.max_window_count = 1;
    return limits;
  }
};

TEST_F(ExecutionServiceTest, MeasurementsStandBesideThePrediction) {
  EXPECT_EQ(execution_.state(), v1::Execution::RUNNING);
  const std::vector<v1::MeasuredWindow> windows = {Window(0, 0), Window(1, 0), Window(0, 0)};
  ASSERT_OK_AND_ASSIGN(const v1::ReportMetricsResponse reported,
                       harness_.executions().Report(execution_.name(), windows));
  EXPECT_EQ(reported.stored_window_count(), 2);
  EXPECT_EQ(reported.duplicate_window_count(), 1);
  ASSERT_OK_AND_ASSIGN(const v1::Execution completed, Complete());
  EXPECT_EQ(completed.state(), v1::Execution::SUCCEEDED);
  EXPECT_EQ(completed.measured_step_duration().nanos(), 50'000'000);
  EXPECT_GT(completed.step_duration_ratio(), 0.0);
  EXPECT_OK(Complete()) << "completing again changes nothing";

  v1::GetExecutionRequest get;
  get.set_name(execution_.name());
  ASSERT_OK_AND_ASSIGN(const v1::Execution stored, harness_.executions().Get(get));
  EXPECT_EQ(stored.window_count(), 2);
  v1::ListExecutionsRequest list;
  list.set_parent(plan_.name());
  ASSERT_OK_AND_ASSIGN(const v1::ListExecutionsResponse listed, harness_.executions().List(list));
  EXPECT_EQ(listed.executions_size(), 1);
}

TEST_F(ExecutionServiceTest, AClosedExecutionStaysAsItIs) {
  ASSERT_OK(Fail());
  const auto closed = IsRefused(StatusCode::kFailedPrecondition, Reason::kExecutionState);
  EXPECT_THAT(Complete(), closed);
  EXPECT_OK(Fail());
  EXPECT_THAT(harness_.executions().Report(execution_.name(), {Window(0, 0)}), closed);
}

TEST_F(ExecutionServiceTest, WindowsBeforeABadOneAreKept) {
  EXPECT_THAT(harness_.executions().Report(execution_.name(), {Window(0, 0), Window(9, 0)}),
              IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  v1::GetExecutionRequest get;
  get.set_name(execution_.name());
  ASSERT_OK_AND_ASSIGN(const v1::Execution stored, harness_.executions().Get(get));
  EXPECT_EQ(stored.window_count(), 1);
}

TEST_F(ExecutionServiceTest, AnEmptyReportStoresNothing) {
  ASSERT_OK_AND_ASSIGN(const v1::ReportMetricsResponse reported,
                       harness_.executions().Report(execution_.name(), {}));
  EXPECT_EQ(reported.stored_window_count(), 0);
}

TEST_F(ExecutionServiceTest, SaysWhatIsNotThere) {
  const auto not_found = IsRefused(StatusCode::kNotFound, Reason::kResourceNotFound);
  const std::string name = plan_.name() + "/executions/none";
  EXPECT_THAT(harness_.executions().Report(name, {Window(0, 0)}), not_found);
  v1::GetExecutionRequest get;
  get.set_name(name);
  EXPECT_THAT(harness_.executions().Get(get), not_found);
  v1::CompleteExecutionRequest complete;
  complete.set_name(name);
  EXPECT_THAT(harness_.executions().Complete(complete), not_found);
  v1::FailExecutionRequest fail;
  fail.set_name(name);
  EXPECT_THAT(harness_.executions().Fail(fail), not_found);
  v1::CreateExecutionRequest create;
  create.set_parent("clusters/lab/plans/none");
  EXPECT_THAT(harness_.executions().Create(create), not_found);
  create.set_parent("plans/none");
  EXPECT_THAT(harness_.executions().Create(create),
              IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  v1::ListExecutionsRequest list;
  list.set_parent("plans");
  EXPECT_THAT(harness_.executions().List(list),
              IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
}

TEST_F(ExecutionServiceTest, AnExpiredPlanIsNotExecuted) {
  harness_.clock().Forward(absl::Hours(25));
  v1::CreateExecutionRequest create;
  create.set_parent(plan_.name());
  EXPECT_THAT(harness_.executions().Create(create),
              IsRefused(StatusCode::kFailedPrecondition, Reason::kPlanExpired));
}

TEST_F(ExecutionServiceTest, ARequestIdOpensOneExecution) {
  v1::CreateExecutionRequest create;
  create.set_parent(plan_.name());
  create.set_request_id("4f8a1a52-29d8-4c4e-9d3c-0f3c2d1e5b6a");
  ASSERT_OK_AND_ASSIGN(const v1::Execution first, harness_.executions().Create(create));
  ASSERT_OK_AND_ASSIGN(const v1::Execution second, harness_.executions().Create(create));
  EXPECT_EQ(first.name(), second.name());
  EXPECT_NE(first.name(), execution_.name());
}

TEST_F(ExecutionServiceTest, AStoreThatFailsIsUnavailable) {
  harness_.store().SetBroken(true);
  EXPECT_THAT(Complete(), IsRefused(StatusCode::kUnavailable, Reason::kStoreUnavailable));
}

TEST_F(FewWindowsTest, MoreWindowsThanTheLimitAreRefused) {
  EXPECT_THAT(harness_.executions().Report(execution_.name(), {Window(0, 0), Window(1, 0)}),
              IsRefused(StatusCode::kResourceExhausted, Reason::kUploadTooLarge));
}

}  // namespace
}  // namespace parplan
