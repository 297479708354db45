#include "executor/report/execution_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(10);

// A server that can be made to fail; outlives its sinks.
class FakeServer {
 public:
  ExecutionReporter::Connect Connect() {
    return [this] { return std::make_unique<Sink>(*this); };
  }
  // How calls end from now on.
  void Answer(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    answer_ = status;
  }
  // Calls do not return until then.
  void Hold(bool holds) {
    const std::lock_guard<std::mutex> lock(mutex_);
    holds_ = holds;
    changed_.notify_all();
  }
  void AwaitCalls(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return call_count_ >= count; });
  }
  std::vector<int64_t> first_steps() const { return {steps_.begin(), steps_.end()}; }
  const std::vector<std::string>& ends() const { return ends_; }
  const std::set<std::string>& request_ids() const { return request_ids_; }
  const std::set<int64_t>& start_seconds() const { return start_seconds_; }

 private:
  class Sink : public ExecutionSink {
   public:
    explicit Sink(FakeServer& server) : server_(server) {}
    absl::StatusOr<std::string> Create(const v1::CreateExecutionRequest& request,
                                       absl::Duration) override {
      const absl::Status status = server_.Call([&] {
        server_.request_ids_.insert(request.request_id());
        server_.start_seconds_.insert(request.start_time().seconds());
      });
      if (!status.ok()) return status;
      return request.parent() + "/executions/e1";
    }
    absl::Status Report(const std::string&, absl::Span<const v1::MeasuredWindow> windows,
                        absl::Duration) override {
      return server_.Call([&] {
        for (const v1::MeasuredWindow& window : windows) {
          server_.steps_.insert(window.first_step());
        }
      });
    }
    absl::Status Complete(const std::string&, absl::Duration) override {
      return server_.Call([&] { server_.ends_.push_back("complete"); });
    }
    absl::Status Fail(const std::string&, const std::string& reason, absl::Duration) override {
      return server_.Call([&] { server_.ends_.push_back("fail: " + reason); });
    }
    absl::Status Abandon(const std::string&, const std::string&, absl::Duration) override {
      return absl::InternalError("a reporter knows how its job ended");
    }

   private:
    FakeServer& server_;
  };

  absl::Status Call(const std::function<void()>& take) {
    std::unique_lock<std::mutex> lock(mutex_);
    ++call_count_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !holds_; });
    if (answer_.ok()) take();
    return answer_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status answer_;
  bool holds_ = false;
  int call_count_ = 0;
  std::set<int64_t> steps_;
  std::vector<std::string> ends_;
  std::set<std::string> request_ids_;
  std::set<int64_t> start_seconds_;
};

ReporterOptions PatientOptions() {
  return {.plan = "clusters/c/plans/p",
          .first_pause = absl::Milliseconds(1),
          .last_pause = absl::Milliseconds(2),
          .call_timeout = kLong,
          .close_timeout = kLong};
}

std::vector<v1::MeasuredWindow> Windows(const std::vector<int64_t>& first_steps) {
  std::vector<v1::MeasuredWindow> windows;
  for (const int64_t step : first_steps) windows.emplace_back().set_first_step(step);
  return windows;
}

TEST(ExecutionReporter, DeliversAllAndSaysHowItEnded) {
  FakeServer server;
  ExecutionReporter reporter(PatientOptions(), server.Connect());
  reporter.Add(Windows({0, 10}));
  reporter.Add(Windows({20}));
  const ReportSummary summary = reporter.Finish(absl::OkStatus());
  EXPECT_THAT(server.first_steps(), ElementsAre(0, 10, 20));
  EXPECT_THAT(server.ends(), ElementsAre("complete"));
  EXPECT_EQ(summary.execution, "clusters/c/plans/p/executions/e1");
  EXPECT_EQ(summary.delivered_count, 3);
  EXPECT_EQ(summary.lost_count, 0);
  EXPECT_TRUE(summary.is_closed);
}

// The plan may expire before a server can be reached.
TEST(ExecutionReporter, SaysWhenTheJobBeganHoweverLateItIsOpened) {
  FakeServer server;
  server.Answer(absl::UnavailableError("away"));
  ReporterOptions options = PatientOptions();
  options.start_time = absl::FromUnixSeconds(1800000000);
  ExecutionReporter reporter(options, server.Connect());
  server.AwaitCalls(3);
  server.Answer(absl::OkStatus());
  EXPECT_TRUE(reporter.Finish(absl::OkStatus()).is_closed);
  EXPECT_THAT(server.start_seconds(), ElementsAre(1800000000));
}

TEST(ExecutionReporter, ReportsWhyAJobFailed) {
  FakeServer server;
  ExecutionReporter reporter(PatientOptions(), server.Connect());
  const ReportSummary summary = reporter.Finish(absl::UnavailableError("rank 2 is lost"));
  EXPECT_THAT(server.ends(), ElementsAre("fail: rank 2 is lost"));
  EXPECT_TRUE(summary.is_closed);
}

TEST(ExecutionReporter, TriesAgainUntilTheServerIsBackUnderOneRequestId) {
  FakeServer server;
  server.Answer(absl::UnavailableError("gone"));
  ExecutionReporter reporter(PatientOptions(), server.Connect());
  reporter.Add(Windows({0}));
  server.AwaitCalls(5);
  server.Answer(absl::OkStatus());
  const ReportSummary summary = reporter.Finish(absl::OkStatus());
  EXPECT_THAT(server.first_steps(), ElementsAre(0));
  EXPECT_EQ(server.request_ids().size(), 1u);
  EXPECT_TRUE(summary.is_closed);
}

TEST(ExecutionReporter, ALostServerLosesWindowsNotTheJob) {
  FakeServer server;
  server.Answer(absl::UnavailableError("gone"));
  ReporterOptions options = PatientOptions();
  options.close_timeout = absl::Milliseconds(20);
  ExecutionReporter reporter(options, server.Connect());
  reporter.Add(Windows({0, 10}));
  const ReportSummary summary = reporter.Finish(absl::OkStatus());
  EXPECT_EQ(summary.lost_count, 2);
  EXPECT_FALSE(summary.is_closed);
  EXPECT_THAT(summary.trouble, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("gone")));
}

// A token was replaced late, or the server does not have the key yet that signed it.
TEST(ExecutionReporter, ARefusedTokenDelaysWindowsUntilTheNextOne) {
  FakeServer server;
  ExecutionReporter reporter(PatientOptions(), server.Connect());
  reporter.Add(Windows({0}));
  server.AwaitCalls(2);
  server.Answer(absl::UnauthenticatedError("the token has expired"));
  reporter.Add(Windows({10}));
  server.AwaitCalls(5);
  server.Answer(absl::OkStatus());
  reporter.Add(Windows({20}));
  const ReportSummary summary = reporter.Finish(absl::OkStatus());
  EXPECT_THAT(server.first_steps(), ElementsAre(0, 10, 20));
  EXPECT_EQ(summary.lost_count, 0);
  EXPECT_TRUE(summary.is_closed);
  EXPECT_THAT(summary.trouble, StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("expired")));
}

// A file may be half-written at the moment of one attempt.
TEST(ExecutionReporter, ConnectsAgainWhateverTheErrorWas) {
  FakeServer server;
  int attempt_count = 0;
  ExecutionReporter reporter(
      PatientOptions(), [&]() -> absl::StatusOr<std::unique_ptr<ExecutionSink>> {
        if (++attempt_count < 3) {
          return FieldError(Reason::kSpecInvalid, "token_file", "holds no token");
        }
        return server.Connect()();
      });
  reporter.Add(Windows({0}));
  const ReportSummary summary = reporter.Finish(absl::OkStatus());
  EXPECT_EQ(attempt_count, 3);
  EXPECT_THAT(server.first_steps(), ElementsAre(0));
  EXPECT_TRUE(summary.is_closed);
  EXPECT_THAT(summary.trouble, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("token_file")));
}

TEST(ExecutionReporter, AddReturnsWhileTheServerHangsAndTheOldestGo) {
  FakeServer server;
  server.Hold(true);
  ReporterOptions options = PatientOptions();
  options.max_window_count = 2;
  ExecutionReporter reporter(options, server.Connect());
  server.AwaitCalls(1);
  reporter.Add(Windows({0}));
  reporter.Add(Windows({10, 20}));
  reporter.Add(Windows({30}));
  server.Hold(false);
  const ReportSummary summary = reporter.Finish(absl::OkStatus());
  EXPECT_THAT(server.first_steps(), ElementsAre(20, 30));
  EXPECT_EQ(summary.lost_count, 2);
  EXPECT_EQ(summary.delivered_count, 2);
}

absl::Status Exhausted(Reason reason) {
  return MakeError(absl::StatusCode::kResourceExhausted, reason, "enough for now");
}

// A quota refills while the job runs.
TEST(ExecutionReporter, AnExceededQuotaDelaysWindowsUntilItRefills) {
  FakeServer server;
  ReporterOptions options = PatientOptions();
  options.max_window_count = 2;
  ExecutionReporter reporter(options, server.Connect());
  server.Answer(WithRetryDelay(Exhausted(Reason::kQuotaExceeded), absl::Hours(1)));
  reporter.Add(Windows({0, 10, 20}));
  server.AwaitCalls(5);
  server.Answer(absl::OkStatus());
  const ReportSummary summary = reporter.Finish(absl::OkStatus());
  EXPECT_THAT(server.first_steps(), ElementsAre(10, 20));
  EXPECT_EQ(summary.delivered_count, 2);
  EXPECT_EQ(summary.lost_count, 1);
  EXPECT_TRUE(summary.is_closed);
}

TEST(ExecutionReporter, AQuotaThatNeverRefillsLosesTheWindowsThatWait) {
  FakeServer server;
  server.Answer(Exhausted(Reason::kQuotaExceeded));
  ReporterOptions options = PatientOptions();
  options.close_timeout = absl::Milliseconds(20);
  ExecutionReporter reporter(options, server.Connect());
  reporter.Add(Windows({0, 10}));
  const ReportSummary summary = reporter.Finish(absl::OkStatus());
  EXPECT_EQ(summary.lost_count, 2);
  EXPECT_THAT(summary.trouble, StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(ExecutionReporter, GivesUpAtAnExecutionThatIsFull) {
  FakeServer server;
  server.Answer(Exhausted(Reason::kUploadTooLarge));
  ExecutionReporter reporter(PatientOptions(), server.Connect());
  reporter.Add(Windows({0}));
  // With a limit of minutes it would not return if it tried again.
  EXPECT_EQ(reporter.Finish(absl::OkStatus()).lost_count, 1);
}

TEST(ExecutionReporter, GivesUpWhereThereIsNoSuchPlan) {
  FakeServer server;
  server.Answer(absl::NotFoundError("no such plan"));
  ExecutionReporter reporter(PatientOptions(), server.Connect());
  reporter.Add(Windows({0}));
  const ReportSummary summary = reporter.Finish(absl::OkStatus());
  EXPECT_THAT(server.first_steps(), ElementsAre());
  EXPECT_EQ(summary.lost_count, 1);
  EXPECT_EQ(summary.execution, "");
  EXPECT_THAT(summary.trouble, StatusIs(absl::StatusCode::kNotFound, HasSubstr("plan")));
}

TEST(ExecutionReporter, MayBeLeftWithoutAnEnd) {
  FakeServer server;
  server.Answer(absl::UnavailableError("gone"));
  ExecutionReporter reporter(PatientOptions(), server.Connect());
  reporter.Add(Windows({0}));
  server.AwaitCalls(2);
}

}  // namespace
}  // namespace parplan
