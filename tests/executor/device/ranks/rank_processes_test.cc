#include "executor/device/ranks/rank_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/device/ranks/core_order.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// Collects the lines that ranks print, so that a test can wait for them.
class Lines {
 public:
  std::function<void(int, absl::string_view)> Listener() {
    return [this](int rank, absl::string_view line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      lines_[rank].emplace_back(line);
      changed_.notify_all();
    };
  }
  // The line of `rank` at `index`.
  std::string Await(int rank, size_t index = 0) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return lines_[rank].size() > index; });
    return lines_[rank][index];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::vector<std::string>> lines_;
};

// Unbound: ranks of tests beside this one would be bound to the same cores.
RankProcessesOptions OptionsOf(int rank_count, const std::string& role) {
  return {.rank_count = rank_count, .argv = {"/proc/self/exe", role}, .pins = false};
}

// Returns once no process of this number runs.
void AwaitEnd(pid_t pid) {
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) return;
  pollfd ended = {.fd = descriptor, .events = POLLIN, .revents = 0};
  while (::poll(&ended, 1, /*timeout=*/-1) < 1) {
  }
  ::close(descriptor);
}

bool IsThere(pid_t pid) { return ::kill(pid, 0) == 0; }

TEST(RankProcesses, RanksMeetAndGiveResults) {
  RankProcessesOptions options = OptionsOf(3, "add");
  options.pins = true;
  auto ranks = RankProcesses::Start(options);
  ASSERT_OK(ranks.status());
  ASSERT_OK((*ranks)->Wait());
  EXPECT_THAT((*ranks)->results(), ::testing::Each(HasSubstr("3 of 3 on 1 cores")));
  for (const pid_t pid : (*ranks)->pids()) EXPECT_FALSE(IsThere(pid));
}

TEST(RankProcesses, UnpinnedRanksMayUseAllCores) {
  RankProcessesOptions options = OptionsOf(1, "add");
  auto ranks = RankProcesses::Start(options);
  ASSERT_OK(ranks.status());
  ASSERT_OK((*ranks)->Wait());
  EXPECT_EQ((*ranks)->results()[0], absl::StrCat("0 of 1 on ", CoresInOrder().size(), " cores"));
}

TEST(RankProcesses, NamesTheRankThatWasKilledNotThoseItTookAlong) {
  auto ranks = RankProcesses::Start(OptionsOf(4, "killed"));
  ASSERT_OK(ranks.status());
  const absl::Status status = (*ranks)->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()),
              MatchesRegex("rank 1 \\(process [0-9]+\\) was killed by SIGKILL"));
}

TEST(RankProcesses, ReportsTheLastWordsOfARankThatFailed) {
  auto ranks = RankProcesses::Start(OptionsOf(3, "failed"));
  ASSERT_OK(ranks.status());
  EXPECT_THAT(std::string((*ranks)->Wait().message()),
              AllOf(HasSubstr("rank 1 "), HasSubstr("ended with status 3: no more apples")));
}

TEST(RankProcesses, ARankThatTakesNoHintIsKilledWhenAnotherFails) {
  Lines lines;
  RankProcessesOptions options = OptionsOf(2, "stubborn");
  options.grace = absl::Milliseconds(50);
  options.on_line = lines.Listener();
  auto ranks = RankProcesses::Start(options);
  ASSERT_OK(ranks.status());
  EXPECT_EQ(lines.Await(0), "ready");
  EXPECT_EQ(lines.Await(1), "ready");
  ::kill((*ranks)->pids()[1], SIGKILL);
  EXPECT_THAT(std::string((*ranks)->Wait().message()),
              AllOf(HasSubstr("rank 1 "), HasSubstr("killed by SIGKILL")));
  EXPECT_FALSE(IsThere((*ranks)->pids()[0]));
}

TEST(RankProcesses, AStoppedRankIsKilledToo) {
  Lines lines;
  RankProcessesOptions options = OptionsOf(2, "pause");
  options.grace = absl::Milliseconds(50);
  options.on_line = lines.Listener();
  auto ranks = RankProcesses::Start(options);
  ASSERT_OK(ranks.status());
  lines.Await(0);
  lines.Await(1);
  ::kill((*ranks)->pids()[0], SIGSTOP);
  (*ranks)->Stop("enough");
  const absl::Status status = (*ranks)->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(status.message()), HasSubstr("enough"));
}

TEST(RankProcesses, TheTimeLimitNamesThoseThatAreLate) {
  RankProcessesOptions options = OptionsOf(2, "pause");
  options.time_limit = absl::Milliseconds(10);
  auto ranks = RankProcesses::Start(options);
  ASSERT_OK(ranks.status());
  const absl::Status status = (*ranks)->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ranks 0, 1 have not ended within 10ms"));
}

TEST(RankProcesses, EndsWithItsObject) {
  std::vector<pid_t> pids;
  {
    auto ranks = RankProcesses::Start(OptionsOf(2, "pause"));
    ASSERT_OK(ranks.status());
    pids = (*ranks)->pids();
  }
  for (const pid_t pid : pids) EXPECT_FALSE(IsThere(pid));
}

TEST(RankProcesses, AProgramThatIsNotThereIsToldAtOnce) {
  const auto ranks = RankProcesses::Start({.rank_count = 2, .argv = {"/nonexistent/trainer"}});
  EXPECT_EQ(ranks.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ranks.status().message()), HasSubstr("/nonexistent/trainer"));
}

// A launcher that is a process, and the ranks it started.
struct Launched {
  Lines lines;
  std::unique_ptr<RankProcesses> launcher;
  pid_t ranks[2] = {0, 0};
};

void StartLauncher(Launched& launched) {
  RankProcessesOptions options = OptionsOf(1, "launcher");
  options.on_line = launched.lines.Listener();
  auto launcher = RankProcesses::Start(options);
  ASSERT_OK(launcher.status());
  launched.launcher = *std::move(launcher);
  // Its ranks may already say that they are ready.
  for (size_t index = 0; launched.ranks[1] == 0; ++index) {
    std::istringstream(launched.lines.Await(0, index)) >> launched.ranks[0] >> launched.ranks[1];
  }
  ASSERT_TRUE(IsThere(launched.ranks[0]));
}

TEST(RankProcesses, NoRankOutlivesALauncherThatIsKilled) {
  Launched launched;
  ASSERT_NO_FATAL_FAILURE(StartLauncher(launched));
  ::kill(launched.launcher->pids()[0], SIGKILL);
  AwaitEnd(launched.ranks[0]);
  AwaitEnd(launched.ranks[1]);
  EXPECT_THAT(std::string(launched.launcher->Wait().message()), HasSubstr("SIGKILL"));
}

TEST(RankProcesses, ASignalToTheLauncherEndsItsRanks) {
  for (const int number : {SIGINT, SIGTERM}) {
    Launched launched;
    ASSERT_NO_FATAL_FAILURE(StartLauncher(launched));
    ::kill(launched.launcher->pids()[0], number);
    EXPECT_OK(launched.launcher->Wait());
    EXPECT_FALSE(IsThere(launched.ranks[0]));
    EXPECT_FALSE(IsThere(launched.ranks[1]));
  }
}

TEST(CoresInOrder, NamesEachOnceAndAtLeastOne) {
  std::vector<int> cores = CoresInOrder();
  EXPECT_FALSE(cores.empty());
  std::sort(cores.begin(), cores.end());
  EXPECT_EQ(std::unique(cores.begin(), cores.end()), cores.end());
  EXPECT_EQ(CoresInOrder("/nonexistent").size(), cores.size());
}

}  // namespace
}  // namespace parplan
