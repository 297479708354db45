#include "clients/kubernetes/report_service.h"

#include <gmock/gmock.h>
#include <grpc/compression.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/sync_stream.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "parplan/v1/execution.pb.h"
#include "parplan/v1/execution_service.grpc.pb.h"
#include "parplan/v1/execution_service.pb.h"
#include "tests/clients/kubernetes/journal_cases.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan::sidecar {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// A service with one open execution, and a client of it.
class ReportServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    journal_ = OpenIn(MakeTestFolder());
    ASSERT_OK_AND_ASSIGN(name_, journal_->Begin(Opening()));
    const std::string socket = absl::StrCat(MakeTestFolder(), "/s");
    ASSERT_OK_AND_ASSIGN(service_,
                         ReportService::Start(socket, *journal_,
                                              [this](const std::string& name,
                                                     absl::Span<const v1::MeasuredWindow> windows) {
                                                const std::lock_guard<std::mutex> lock(mutex_);
                                                observed_.emplace_back(name, windows.size());
                                              }));
    stub_ = v1::ExecutionService::NewStub(
        grpc::CreateChannel(absl::StrCat("unix:", socket), grpc::InsecureChannelCredentials()));
  }

  // Reports one window after the other; the execution that each names stands before it.
  grpc::Status Report(const std::vector<std::pair<std::string, v1::MeasuredWindow>>& messages) {
    grpc::ClientContext context;
    // Only so that a broken service fails the test instead of blocking it.
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    response_.Clear();
    const std::unique_ptr<grpc::ClientWriter<v1::ReportMetricsRequest>> stream =
        stub_->ReportMetrics(&context, &response_);
    for (const auto& [execution, window] : messages) {
      v1::ReportMetricsRequest request;
      request.set_execution(execution);
      *request.mutable_window() = window;
      // A service that has refused a message takes no further one.
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
    return stream->Finish();
  }

  int64_t KeptCount() const {
    const absl::StatusOr<v1::Execution> execution = journal_->Get(name_);
    EXPECT_OK(execution);
    return execution.ok() ? execution->window_count() : -1;
  }

  // Returns the names and numbers of windows with which the observer was called.
  std::vector<std::pair<std::string, size_t>> Observed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return observed_;
  }

  std::unique_ptr<WindowJournal> journal_;
  std::string name_;
  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, size_t>> observed_;  // Guarded by mutex_.
  // Ends before the journal and the list.
  std::unique_ptr<ReportService> service_;
  std::unique_ptr<v1::ExecutionService::Stub> stub_;
  v1::ReportMetricsResponse response_;
};

TEST_F(ReportServiceTest, TakesNoCompressedAndNoLargeMessages) {
  v1::FailExecutionRequest request;
  request.set_name(name_);
  request.set_reason(std::string(1 << 20, 'x'));
  const auto fail = [&](bool compressed) {
    grpc::ClientContext context;
    if (compressed) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    v1::Execution execution;
    return stub_->FailExecution(&context, request, &execution).error_code();
  };
  EXPECT_EQ(fail(true), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(fail(false), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Report({{name_, Windows({0})[0]}}).ok());
}

// Each stream takes a thread; without a limit 8,000 of them take as many.
TEST_F(ReportServiceTest, HoldsFewSilentStreams) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<v1::ReportMetricsResponse>> responses;
  std::vector<std::unique_ptr<grpc::ClientWriter<v1::ReportMetricsRequest>>> streams;
  v1::ReportMetricsRequest request;
  request.set_execution(name_);
  *request.mutable_window() = Windows({0})[0];
  for (int i = 0; i < 30; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    contexts.back()->set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    responses.push_back(std::make_unique<v1::ReportMetricsResponse>());
    streams.push_back(stub_->ReportMetrics(contexts.back().get(), responses.back().get()));
    streams.back()->Write(request);
  }
  // A stream beyond the threads is ended; without a limit it would wait for its deadline.
  EXPECT_EQ(streams.back()->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  streams.pop_back();
  for (size_t i = 0; i < streams.size(); ++i) {
    contexts[i]->TryCancel();
    (void)streams[i]->Finish();
  }
  grpc::Status status;
  // The server hears of the cancelled streams one by one.
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!(status = Report({{name_, Windows({10})[0]}})).ok() && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ReportServiceTest, SaysWhoListsExecutions) {
  grpc::ClientContext context;
  v1::ListExecutionsResponse response;
  const grpc::Status status =
      stub_->ListExecutions(&context, v1::ListExecutionsRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("ask the server"));
}

// At a server too, an abandoned execution runs again with its next window.
TEST_F(ReportServiceTest, TakesWindowsOfAnAbandonedExecution) {
  v1::FailExecutionRequest abandon;
  abandon.set_name(name_);
  abandon.set_reason("no report");
  abandon.set_abandoned(true);
  v1::Execution execution;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->FailExecution(&context, abandon, &execution).ok());
  }
  EXPECT_EQ(execution.state(), v1::Execution::RUNNING);
  EXPECT_TRUE(Report({{name_, Windows({0})[0]}}).ok());
  EXPECT_EQ(KeptCount(), 1);
  v1::CompleteExecutionRequest complete;
  complete.set_name(name_);
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->CompleteExecution(&context, complete, &execution).ok());
  }
  EXPECT_EQ(execution.state(), v1::Execution::SUCCEEDED);
  abandon.set_name("clusters/lab/plans/none/executions/none");
  grpc::ClientContext context;
  EXPECT_EQ(stub_->FailExecution(&context, abandon, &execution).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ReportServiceTest, KeepsWindowsAndShowsThemToTheObserver) {
  const std::vector<v1::MeasuredWindow> windows = Windows({0, 10});
  // Only the first message must name the execution.
  const grpc::Status answer = Report({{name_, windows[0]}, {"", windows[1]}});
  EXPECT_TRUE(answer.ok()) << answer.error_message();
  EXPECT_EQ(response_.stored_window_count(), 2);
  EXPECT_EQ(KeptCount(), 2);
  EXPECT_THAT(Observed(), ElementsAre(Pair(name_, 2)));
}

TEST_F(ReportServiceTest, KeepsTheWindowsBeforeAMessageThatNamesAnotherExecution) {
  const std::vector<v1::MeasuredWindow> windows = Windows({0, 10, 20});
  const grpc::Status answer =
      Report({{name_, windows[0]}, {name_, windows[1]}, {name_ + "-2", windows[2]}});
  EXPECT_EQ(answer.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.error_message(), testing::HasSubstr("execution"));
  EXPECT_EQ(KeptCount(), 2);
  EXPECT_THAT(Observed(), ElementsAre(Pair(name_, 2)));
}

TEST_F(ReportServiceTest, KeepsTheWindowsBeforeOneThatIsRefused) {
  std::vector<v1::MeasuredWindow> windows = Windows({0, 10});
  windows[1].set_step_count(0);
  const grpc::Status answer = Report({{name_, windows[0]}, {name_, windows[1]}});
  EXPECT_EQ(answer.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(KeptCount(), 1);
  EXPECT_THAT(Observed(), ElementsAre(Pair(name_, 1)));
}

TEST_F(ReportServiceTest, ObserverIsNeverCalledWithoutWindows) {
  const grpc::Status empty = Report({});
  EXPECT_TRUE(empty.ok()) << empty.error_message();
  EXPECT_EQ(response_.stored_window_count(), 0);
  // The first window is refused, so there are none before it.
  v1::MeasuredWindow broken = Windows({0}).front();
  broken.set_step_count(0);
  EXPECT_EQ(Report({{name_, broken}}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Observed(), IsEmpty());
  // The service stores 256 windows together, so none is left when this stream ends.
  const v1::MeasuredWindow window = Windows({0}).front();
  const grpc::Status full =
      Report(std::vector<std::pair<std::string, v1::MeasuredWindow>>(256, {name_, window}));
  EXPECT_TRUE(full.ok()) << full.error_message();
  EXPECT_EQ(response_.stored_window_count(), 256);
  EXPECT_THAT(Observed(), ElementsAre(Pair(name_, 256)));
}

}  // namespace
}  // namespace parplan::sidecar
