#include "executor/device/ranks/node_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/local_socket.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kAgreementPatience = absl::Minutes(3);

// A rank of a job on this node whose launcher gave it no token. Tests have jobs of their own.
RankEnvironment RankOf(const std::string& job, int rank) {
  return {.launcher = Launcher::kSlurm,
          .rank = rank,
          .world_size = 8,
          .rendezvous = "127.0.0.1:4711",
          .job = absl::StrCat(job, " ", ::getpid())};
}

// The name that the ranks of a job meet under.
std::string NameOf(const RankEnvironment& self) {
  const std::string digest = DigestOf(absl::StrCat(self.job, " at ", self.rendezvous));
  std::string name = "parplan-job/";
  for (int k = 0; k < 16; ++k) {
    absl::StrAppend(&name, absl::Hex(static_cast<unsigned char>(digest[k]), absl::kZeroPad2));
  }
  return name;
}

TEST(NodeToken, AllRanksHaveTheTokenOfRankZero) {
  std::vector<RankEnvironment> ranks;
  for (int rank = 0; rank < 8; ++rank) ranks.push_back(RankOf("all", rank));
  std::vector<std::thread> threads;
  // Before rank 0 is there, and after.
  const auto start = [&](int first) {
    for (int rank = first; rank < 8; rank += 2) {
      threads.emplace_back([&ranks, rank] {
        EXPECT_OK(NodeToken::Agree(ranks[rank], kAgreementPatience).status());
      });
    }
  };
  start(1);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<NodeToken> token,
                       NodeToken::Agree(ranks[0], kAgreementPatience));
  start(2);
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(token, nullptr);
  EXPECT_EQ(ranks[0].token.size(), 32u);
  for (const RankEnvironment& rank : ranks) EXPECT_EQ(rank.token, ranks[0].token);
}

TEST(NodeToken, IsAnotherOneForEachJobAndEachTime) {
  std::set<std::string> tokens;
  for (const char* const job : {"one", "two", "one"}) {
    RankEnvironment self = RankOf(job, 0);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<NodeToken> token,
                         NodeToken::Agree(self, kAgreementPatience));
    tokens.insert(self.token);
  }
  EXPECT_EQ(tokens.size(), 3u);
}

// Two of one id, as torchrun's are by default, have ports of their own.
TEST(NodeToken, JobsOfOneIdDoNotMix) {
  RankEnvironment first = RankOf("none", 0);
  RankEnvironment second = RankOf("none", 0);
  second.rendezvous = "127.0.0.1:4712";
  ASSERT_OK_AND_ASSIGN(const auto token, NodeToken::Agree(first, kAgreementPatience));
  ASSERT_OK_AND_ASSIGN(const auto other, NodeToken::Agree(second, kAgreementPatience));
  RankEnvironment rank = RankOf("none", 1);
  rank.rendezvous = second.rendezvous;
  ASSERT_OK(NodeToken::Agree(rank, kAgreementPatience).status());
  EXPECT_EQ(rank.token, second.token);
  EXPECT_NE(rank.token, first.token);
}

TEST(NodeToken, ATokenOfTheLauncherStays) {
  RankEnvironment self = RankOf("given", 1);
  self.token = "secret";
  EXPECT_THAT(NodeToken::Agree(self, absl::ZeroDuration()), IsOkAndHolds(testing::IsNull()));
  EXPECT_EQ(self.token, "secret");
}

TEST(NodeToken, WithoutRankZeroItSaysWhatToDo) {
  RankEnvironment self = RankOf("alone", 3);
  EXPECT_THAT(NodeToken::Agree(self, absl::Milliseconds(50)).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("rank 3"), HasSubstr("set PARPLAN_TOKEN"))));
  EXPECT_EQ(self.token, "");
}

// Rank 0 comes only once another rank has said that it waits for it.
TEST(NodeToken, WhoWaitsSaysSo) {
  RankEnvironment first = RankOf("slow", 0);
  RankEnvironment second = RankOf("slow", 1);
  std::unique_ptr<NodeToken> token;
  ASSERT_OK(NodeToken::Agree(
                second, kAgreementPatience,
                [&](const std::string& notice) {
                  EXPECT_THAT(notice, HasSubstr("rank 1 waits for the token of rank 0"));
                  if (token != nullptr) return;
                  ASSERT_OK_AND_ASSIGN(token, NodeToken::Agree(first, kAgreementPatience));
                },
                /*notice_interval=*/absl::ZeroDuration())
                .status());
  EXPECT_EQ(second.token, first.token);
  EXPECT_EQ(second.token.size(), 32u);
}

// One of the same id and port may end with this job's rank in its queue.
TEST(NodeToken, TheEndOfAJobBeforeIsWaitedFor) {
  RankEnvironment first = RankOf("again", 0);
  RankEnvironment second = RankOf("again", 1);
  absl::StatusOr<LocalListener> before = LocalListener::Open(NameOf(first));
  ASSERT_OK(before);
  std::thread rank([&] { EXPECT_OK(NodeToken::Agree(second, kAgreementPatience).status()); });
  pollfd interest = {.fd = before->descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&interest, 1, /*timeout=*/-1), 1);
  // Closes it, and the connection in its queue.
  before = absl::CancelledError("over");
  ASSERT_OK_AND_ASSIGN(const auto token, NodeToken::Agree(first, kAgreementPatience));
  rank.join();
  EXPECT_EQ(second.token, first.token);
}

TEST(NodeToken, ATakenNameEndsRankZero) {
  RankEnvironment self = RankOf("taken", 0);
  ASSERT_OK_AND_ASSIGN(const LocalListener squatter, LocalListener::Open(NameOf(self)));
  EXPECT_THAT(NodeToken::Agree(self, kAgreementPatience).status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("set PARPLAN_TOKEN")));
}

// Another user who asks for the token, and one who took the name before rank 0.
TEST(NodeToken, AnotherUserNeitherHearsNorGivesAToken) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer cannot follow a process that forks among threads";
#endif
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kNobody = 65534;
  RankEnvironment self = RankOf("users", 0);
  RankEnvironment deceived = RankOf("deceived", 1);
  const std::string name = NameOf(self);
  const std::string taken = NameOf(deceived);
  int ready[2] = {-1, -1};
  int go[2] = {-1, -1};
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  char byte = 'x';
  if (child == 0) {
    if (::setuid(kNobody) != 0) ::_exit(2);
    const absl::StatusOr<LocalListener> squatter = LocalListener::Open(taken);
    if (!squatter.ok() || ::write(ready[1], &byte, 1) != 1) ::_exit(3);
    if (::read(go[0], &byte, 1) != 1) ::_exit(4);
    const absl::Status status = ConnectToLocal(name, SteadyNow() + kAgreementPatience).status();
    ::_exit(absl::IsPermissionDenied(status) ? 0 : 5);
  }
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(NodeToken::Agree(deceived, kAgreementPatience).status(),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("another user"), HasSubstr("set PARPLAN_TOKEN"))));
  EXPECT_EQ(deceived.token, "");
  {
    ASSERT_OK_AND_ASSIGN(const auto token, NodeToken::Agree(self, kAgreementPatience));
    ASSERT_EQ(::write(go[1], &byte, 1), 1);
    int exit = 0;
    ASSERT_EQ(::waitpid(child, &exit, 0), child);
    EXPECT_EQ(exit, 0);
  }
  for (const int end : {ready[0], ready[1], go[0], go[1]}) ::close(end);
}

}  // namespace
}  // namespace parplan
