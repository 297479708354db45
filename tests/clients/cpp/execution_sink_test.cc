#include "clients/cpp/execution_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/error.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(30);

v1::MeasuredWindow Window(int64_t first_step) {
  v1::MeasuredWindow window;
  window.set_first_step(first_step);
  window.set_step_count(10);
  window.mutable_median_step_duration()->set_nanos(50'000'000);
  window.set_peak_memory_bytes(1 << 30);
  return window;
}

// A server with a plan, and a sink on a channel of its own.
class ServerSinkTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(harness_.UploadSmallProfile());
    ASSERT_OK_AND_ASSIGN(plan_, harness_.plans().CreatePlan(SmallQuestion()));
    ASSERT_OK_AND_ASSIGN(sink_, MakeServerSink({.target = harness_.address()}));
    ASSERT_OK_AND_ASSIGN(execution_, sink_->Create(Opening("one"), kTimeout));
  }

  v1::CreateExecutionRequest Opening(const std::string& request_id) const {
    v1::CreateExecutionRequest request;
    request.set_parent(plan_.name());
    request.set_request_id(request_id);
    return request;
  }

  v1::Execution Stored() {
    v1::GetExecutionRequest get;
    get.set_name(execution_);
    const absl::StatusOr<v1::Execution> stored = harness_.executions().Get(get);
    EXPECT_OK(stored);
    return stored.ok() ? *stored : v1::Execution();
  }

  RpcHarness harness_;
  v1::Plan plan_;
  std::unique_ptr<ExecutionSink> sink_;
  std::string execution_;
};

TEST_F(ServerSinkTest, OpensOneExecutionForOneRequestId) {
  EXPECT_THAT(sink_->Create(Opening("one"), kTimeout), IsOkAndHolds(execution_));
  EXPECT_THAT(sink_->Create(Opening("two"), kTimeout), IsOkAndHolds(testing::Ne(execution_)));
}

TEST_F(ServerSinkTest, ReportsWindowsOnceAndCompletes) {
  const std::vector<v1::MeasuredWindow> windows = {Window(0), Window(10)};
  EXPECT_OK(sink_->Report(execution_, windows, kTimeout));
  EXPECT_OK(sink_->Report(execution_, windows, kTimeout));
  EXPECT_EQ(Stored().window_count(), 2);
  EXPECT_OK(sink_->Complete(execution_, kTimeout));
  EXPECT_EQ(Stored().state(), v1::Execution::SUCCEEDED);
}

TEST_F(ServerSinkTest, AnExecutionThatFailedTakesNoMoreWindows) {
  EXPECT_OK(sink_->Fail(execution_, "a rank was lost", kTimeout));
  EXPECT_EQ(Stored().state(), v1::Execution::FAILED);
  EXPECT_THAT(sink_->Report(execution_, std::vector<v1::MeasuredWindow>{Window(0)}, kTimeout),
              IsRefused(absl::StatusCode::kFailedPrecondition, Reason::kExecutionState));
}

TEST_F(ServerSinkTest, AnAbandonedExecutionGoesOnWithTheNextReport) {
  EXPECT_OK(sink_->Abandon(execution_, "the job stopped reporting", kTimeout));
  EXPECT_EQ(Stored().state(), v1::Execution::FAILED);
  EXPECT_OK(sink_->Report(execution_, std::vector<v1::MeasuredWindow>{Window(0)}, kTimeout));
  EXPECT_EQ(Stored().state(), v1::Execution::RUNNING);
}

TEST_F(ServerSinkTest, CutsAReasonThatIsTooLong) {
  EXPECT_OK(sink_->Fail(execution_, std::string(5000, 'x'), kTimeout));
  EXPECT_EQ(Stored().state(), v1::Execution::FAILED);
  EXPECT_EQ(Stored().failure_reason(), std::string(1024, 'x'));
}

// A cut after 1024 bytes would be within a character.
TEST_F(ServerSinkTest, CutsAReasonBetweenCharacters) {
  std::string reason = "x";
  for (int i = 1; i < 2000; ++i) reason += "\xC3\xA9";
  EXPECT_OK(sink_->Fail(execution_, reason, kTimeout));
  EXPECT_EQ(Stored().failure_reason(), reason.substr(0, 1 + 2 * 1023));
}

TEST_F(ServerSinkTest, SendsAReasonWhateverItsBytes) {
  EXPECT_OK(sink_->Abandon(execution_, std::string("rank 3\0: \xFF", 10), kTimeout));
  EXPECT_EQ(Stored().failure_reason(), "rank 3 : \xEF\xBF\xBD");
}

TEST_F(ServerSinkTest, ReturnsTheErrorsOfTheServer) {
  EXPECT_THAT(sink_->Complete(plan_.name() + "/executions/none", kTimeout),
              IsRefused(absl::StatusCode::kNotFound, Reason::kResourceNotFound));
}

TEST(MakeServerSink, RefusesWhatMakesNoChannel) {
  EXPECT_THAT(MakeServerSink({.target = ""}),
              IsRefused(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid));
}

}  // namespace
}  // namespace parplan
