#include "clients/kubernetes/forwarder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/clients/kubernetes/journal_cases.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan::sidecar {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kLong = absl::Minutes(10);
constexpr ForwarderOptions kQuick = {absl::Milliseconds(1), absl::Milliseconds(2)};

// A server that can be made to fail.
class FakeServer {
 public:
  Forwarder::Deliver Function() {
    return [this](const JournalTask& task) { return Take(task); };
  }
  // How every call ends from now on.
  void Answer(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    answer_ = status;
  }
  // Windows that begin there are refused, with all that come with them.
  void RefuseStep(int64_t step) {
    const std::lock_guard<std::mutex> lock(mutex_);
    refused_step_ = step;
  }
  void AwaitCalls(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return call_count_ >= count; });
  }
  std::vector<int64_t> steps() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {steps_.begin(), steps_.end()};
  }
  std::vector<std::string> ends() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ends_;
  }

 private:
  absl::StatusOr<std::string> Take(const JournalTask& task) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++call_count_;
    changed_.notify_all();
    if (!answer_.ok()) return answer_;
    switch (task.kind) {
      case JournalTask::Kind::kOpen:
        return absl::StrCat(task.request.parent(), "/executions/e-", task.request.request_id());
      case JournalTask::Kind::kSend:
        for (const v1::MeasuredWindow& window : task.windows) {
          if (window.first_step() == refused_step_) return absl::InvalidArgumentError("window");
        }
        for (const v1::MeasuredWindow& window : task.windows) steps_.insert(window.first_step());
        return task.execution;
      case JournalTask::Kind::kClose:
        ends_.push_back(absl::StrCat(task.execution, " ",
                                     task.outcome == v1::Execution::SUCCEEDED ? "done" : "failed"));
        return task.execution;
      case JournalTask::Kind::kAbandon:
        ends_.push_back(absl::StrCat(task.execution, " left: ", task.reason));
        return task.execution;
    }
    return absl::InternalError("no task");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status answer_;
  int64_t refused_step_ = -1;
  int call_count_ = 0;
  std::set<int64_t> steps_;
  std::vector<std::string> ends_;
};

TEST(Forwarder, BringsEverythingInOrder) {
  FakeServer server;
  const auto journal = OpenIn(MakeTestFolder());
  Forwarder forwarder(*journal, server.Function(), kQuick);
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
  ASSERT_OK(journal->Append(name, Windows({0, 10})));
  ASSERT_OK(journal->Append(name, Windows({20})));
  EXPECT_TRUE(forwarder.Flush(kLong));
  EXPECT_THAT(server.steps(), ElementsAre(0, 10, 20));
  EXPECT_THAT(server.ends(), IsEmpty());
  ASSERT_OK(journal->Close(name, v1::Execution::SUCCEEDED, ""));
  EXPECT_TRUE(forwarder.Flush(kLong));
  EXPECT_THAT(server.ends(), ElementsAre("clusters/lab/plans/p1/executions/e-id-1 done"));
}

TEST(Forwarder, ReportsOnceWhatTheJobLeftOpen) {
  FakeServer server;
  const auto journal = OpenIn(MakeTestFolder());
  Forwarder forwarder(*journal, server.Function(), kQuick);
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
  ASSERT_OK(journal->Append(name, Windows({0})));
  journal->Abandon("the pod ended");
  EXPECT_TRUE(forwarder.Flush(kLong));
  EXPECT_TRUE(forwarder.Flush(kLong));
  EXPECT_THAT(server.steps(), ElementsAre(0));
  EXPECT_THAT(server.ends(),
              ElementsAre("clusters/lab/plans/p1/executions/e-id-1 left: the pod ended"));
}

TEST(Forwarder, TriesUntilTheServerIsBack) {
  FakeServer server;
  server.Answer(absl::UnavailableError("away"));
  const auto journal = OpenIn(MakeTestFolder());
  Forwarder forwarder(*journal, server.Function(), kQuick);
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
  ASSERT_OK(journal->Append(name, Windows({0})));
  server.AwaitCalls(5);
  EXPECT_THAT(server.steps(), IsEmpty());
  EXPECT_GT(forwarder.failure_count(), 0);
  server.Answer(absl::OkStatus());
  EXPECT_TRUE(forwarder.Flush(kLong));
  EXPECT_THAT(server.steps(), ElementsAre(0));
}

TEST(Forwarder, TheNextOneBringsWhatIsLeft) {
  const std::string folder = MakeTestFolder();
  FakeServer server;
  server.Answer(absl::UnavailableError("away"));
  {
    const auto journal = OpenIn(folder);
    Forwarder forwarder(*journal, server.Function(), kQuick);
    ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
    ASSERT_OK(journal->Append(name, Windows({0, 10})));
    ASSERT_OK(journal->Close(name, v1::Execution::FAILED, "killed"));
    server.AwaitCalls(1);
    EXPECT_FALSE(forwarder.Flush(absl::Milliseconds(1)));
  }
  server.Answer(absl::OkStatus());
  const auto journal = OpenIn(folder);
  Forwarder forwarder(*journal, server.Function(), kQuick);
  EXPECT_TRUE(forwarder.Flush(kLong));
  EXPECT_THAT(server.steps(), ElementsAre(0, 10));
  EXPECT_THAT(server.ends(), ElementsAre("clusters/lab/plans/p1/executions/e-id-1 failed"));
}

TEST(Forwarder, OneBadWindowTakesNoOtherWithIt) {
  FakeServer server;
  server.RefuseStep(10);
  const auto journal = OpenIn(MakeTestFolder());
  Forwarder forwarder(*journal, server.Function(), kQuick);
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
  ASSERT_OK(journal->Append(name, Windows({0, 10, 20})));
  EXPECT_TRUE(forwarder.Flush(kLong));
  EXPECT_THAT(server.steps(), ElementsAre(0, 20));
  EXPECT_EQ(journal->counts().refused_window_count, 1);
  EXPECT_EQ(journal->counts().forwarded_window_count, 2);
}

// The end waits for one window, not for all of a batch that was refused.
TEST(Forwarder, EndsBetweenWindowsThatAreSentOneByOne) {
  const auto journal = OpenIn(MakeTestFolder());
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
  ASSERT_OK(journal->Append(name, Windows({0, 10, 20})));
  std::unique_ptr<Forwarder> forwarder;
  std::thread ending;
  std::atomic<bool> is_made = false;
  std::atomic<bool> is_ending = false;
  int single_count = 0;
  const auto deliver = [&](const JournalTask& task) -> absl::StatusOr<std::string> {
    if (task.kind != JournalTask::Kind::kSend) return "clusters/lab/plans/p1/executions/e";
    if (task.windows.size() > 1) return absl::InvalidArgumentError("window");
    ++single_count;
    if (single_count == 1) {
      while (!is_made) std::this_thread::yield();
      ending = std::thread([&forwarder] { forwarder.reset(); });
      is_ending = true;
      // The end interrupts the journal.
      while (journal->Next(absl::ZeroDuration()).has_value()) std::this_thread::yield();
    }
    return task.execution;
  };
  forwarder = std::make_unique<Forwarder>(*journal, deliver, kQuick);
  is_made = true;
  while (!is_ending) std::this_thread::yield();
  ending.join();
  EXPECT_EQ(single_count, 1);
  EXPECT_EQ(journal->counts().forwarded_window_count, 0);
  EXPECT_FALSE(journal->is_empty());
}

TEST(Forwarder, WhatWillNeverBeTakenHoldsUpNobody) {
  FakeServer server;
  server.Answer(absl::NotFoundError("no such plan"));
  const auto journal = OpenIn(MakeTestFolder());
  Forwarder forwarder(*journal, server.Function(), kQuick);
  ASSERT_OK_AND_ASSIGN(const std::string lost, journal->Begin(Opening("id-1")));
  EXPECT_TRUE(forwarder.Flush(kLong));
  EXPECT_THAT(journal->Append(lost, Windows({0})), StatusIs(absl::StatusCode::kFailedPrecondition));
  server.Answer(absl::OkStatus());
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening("id-2")));
  ASSERT_OK(journal->Append(name, Windows({0})));
  EXPECT_TRUE(forwarder.Flush(kLong));
  EXPECT_THAT(server.steps(), ElementsAre(0));
}

TEST(Forwarder, ReportersOnManyThreadsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kWindowCount = 50;
  FakeServer server;
  const auto journal = OpenIn(MakeTestFolder());
  Forwarder forwarder(*journal, server.Function(), kQuick);
  std::atomic<int> failed = 0;
  std::vector<std::thread> reporters;
  for (int thread = 0; thread < kThreads; ++thread) {
    reporters.emplace_back([&, thread] {
      const auto name = journal->Begin(Opening(absl::StrCat("id-", thread)));
      for (int i = 0; name.ok() && i < kWindowCount; ++i) {
        failed += journal->Append(*name, Windows({thread * 10'000 + i})).ok() ? 0 : 1;
      }
      failed += name.ok() && journal->Close(*name, v1::Execution::SUCCEEDED, "").ok() ? 0 : 1;
    });
  }
  for (std::thread& reporter : reporters) reporter.join();
  EXPECT_EQ(failed, 0);
  EXPECT_TRUE(forwarder.Flush(kLong));
  EXPECT_EQ(server.steps().size(), size_t{kThreads * kWindowCount});
  EXPECT_EQ(server.ends().size(), size_t{kThreads});
  EXPECT_EQ(journal->counts().forwarded_window_count, kThreads * kWindowCount);
}

TEST(Forwarder, KnowsWhatPasses) {
  EXPECT_TRUE(MayRetry(absl::UnavailableError("")));
  EXPECT_TRUE(MayRetry(absl::DeadlineExceededError("")));
  EXPECT_TRUE(MayRetry(absl::UnauthenticatedError("")));
  EXPECT_TRUE(MayRetry(MakeError(absl::StatusCode::kResourceExhausted, Reason::kQueueFull, "")));
  EXPECT_FALSE(
      MayRetry(MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge, "")));
  EXPECT_FALSE(MayRetry(absl::NotFoundError("")));
  EXPECT_FALSE(MayRetry(absl::InvalidArgumentError("")));
}

TEST(Forwarder, SaysThatTheServerHasClosedAnExecution) {
  FakeServer server;
  const auto journal = OpenIn(MakeTestFolder());
  Forwarder forwarder(*journal, server.Function(), kQuick);
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
  EXPECT_TRUE(forwarder.Flush(kLong));
  server.Answer(
      MakeError(absl::StatusCode::kFailedPrecondition, Reason::kExecutionState, "it is failed"));
  ASSERT_OK(journal->Append(name, Windows({0})));
  EXPECT_TRUE(forwarder.Flush(kLong));
  EXPECT_EQ(journal->counts().refused_window_count, 1);
  EXPECT_EQ(journal->Append(name, Windows({10})).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace parplan::sidecar
