#include "executor/device/comm/rendezvous_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/socket.h"
#include "executor/device/comm/tls_session.h"
#include "tests/executor/device/comm/raw_rank.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

// A clock that a test moves.
struct HandClock {
  std::function<absl::Duration()> Function() {
    return [this] { return absl::Milliseconds(milliseconds.load()); };
  }
  void Advance(absl::Duration time) { milliseconds += absl::ToInt64Milliseconds(time); }
  std::atomic<int64_t> milliseconds = 1'000'000;
};

std::unique_ptr<RendezvousServer> ServerOf(int world_size, HandClock* clock = nullptr) {
  RendezvousServerOptions options = {.token = "secret", .world_size = world_size};
  if (clock != nullptr) options.now = clock->Function();
  absl::StatusOr<std::unique_ptr<RendezvousServer>> server = RendezvousServer::Start(options);
  EXPECT_OK(server.status());
  return *std::move(server);
}

// A stopped process has connections that hold, and answers nothing.
TEST(RendezvousServer, NamesTheRankThatDoesNotAnswerToAll) {
  HandClock clock;
  const std::unique_ptr<RendezvousServer> server = ServerOf(3, &clock);
  const RawRank first(*server, 0, 3);
  const RawRank second(*server, 1, 3);
  const RawRank frozen(*server, 2, 3);
  // Its neighbour waits for rank 2, and this one for the neighbour.
  first.Write({.kind = FrameKind::kStalled, .number = 1 + 1, .value = "a sum took long"});
  EXPECT_EQ(first.Read().kind, FrameKind::kProbe);
  EXPECT_EQ(second.Read().kind, FrameKind::kProbe);
  second.Write({.kind = FrameKind::kWaits, .number = 2 + 1});
  second.Meet();
  clock.Advance(absl::Seconds(5));
  second.Write({.kind = FrameKind::kWaits, .number = 2 + 1});
  EXPECT_EQ(frozen.Read().kind, FrameKind::kProbe);
  for (const RawRank* const rank : {&first, &second, &frozen}) {
    const Frame told = rank->Read();
    EXPECT_EQ(told.kind, FrameKind::kFailure);
    EXPECT_EQ(told.key, "stalled");
    EXPECT_THAT(told.value, AllOf(HasSubstr("rank 2 does not answer"), HasSubstr("a sum took")));
    EXPECT_THAT(told.value, Not(AnyOf(HasSubstr("rank 0"), HasSubstr("rank 1"))));
  }
}

// Else the first rank to speak could name the address, or the memory, of another.
TEST(RendezvousServer, AFactIsPublishedByTheRankThatItIsAbout) {
  for (const char* const fact :
       {"rank/1", "device/1", "has ended/1", "memory/data:1,2#0", "memory/alone:1#3",
        "memory/a:b:1,2#0", "nccl/data:1,2#0", "nccl/a:b:1,2#1"}) {
    const std::unique_ptr<RendezvousServer> server = ServerOf(3);
    const RawRank owner(*server, 1, 3);
    const RawRank other(*server, 2, 3);
    owner.Write({.kind = FrameKind::kSet, .key = fact, .value = "mine"});
    owner.Meet();
    other.Write({.kind = FrameKind::kGet, .number = 7, .key = fact});
    EXPECT_EQ(other.Read().value, "mine") << fact;
    // The same words from another rank are no better.
    other.Write({.kind = FrameKind::kSet, .key = fact, .value = "mine"});
    const Frame told = owner.Read();
    EXPECT_EQ(told.kind, FrameKind::kFailure);
    EXPECT_THAT(told.value, AllOf(HasSubstr("rank 2"), HasSubstr(fact), HasSubstr("rank 1's")));
  }
}

// The server reads at most 64 KiB of one rank before it looks at its clock and reads the others. It
// loses nothing of what the rank sends.
TEST(RendezvousServer, ARankThatTalksWithoutAnEndIsHeardInTurns) {
  std::atomic<int64_t> look_count = 0;
  const std::unique_ptr<RendezvousServer> server =
      *RendezvousServer::Start({.token = "secret", .world_size = 2, .now = [&look_count] {
                                  ++look_count;
                                  return SteadyNow();
                                }});
  const RawRank talker(*server, 0, 2);
  const RawRank other(*server, 1, 2);
  std::string words;
  for (int k = 0; k < 1000; ++k) {
    words += std::string("\14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", kFrameHeaderSize);
  }
  static_assert(static_cast<int>(FrameKind::kWaits) == 014);
  const int64_t looks_before = look_count;
  std::atomic<bool> is_over = false;
  int64_t said_bytes = 0;
  absl::Status status;
  std::thread talk([&] {
    while (status.ok() && !is_over) {
      status = talker.socket.WriteAll(words, SteadyNow() + kLong);
      said_bytes += static_cast<int64_t>(words.size());
    }
  });
  for (int round = 0; round < 20; ++round) other.Meet();
  is_over = true;
  talk.join();
  ASSERT_OK(status);
  talker.Meet();
  EXPECT_GE(look_count - looks_before, said_bytes / (64 << 10));
}

// Reads the answer to what `stranger` sent: the kind, and the text of a refusal.
std::string AnswerTo(const Socket& stranger, const Frame& sent) {
  EXPECT_OK(WriteFrame(stranger, sent, SteadyNow() + kLong));
  const absl::StatusOr<Frame> answer = ReadFrame(stranger, SteadyNow() + kLong);
  if (!answer.ok()) return std::string(answer.status().message());
  return answer->kind == FrameKind::kRefused ? answer->value
                                             : absl::StrCat(static_cast<int>(answer->kind));
}

constexpr char kChallenged[] = "13";

TEST(RendezvousServer, WhoDoesNotProveThatItKnowsTheTokenIsRefused) {
  const std::unique_ptr<RendezvousServer> server = ServerOf(1);
  const auto connect = [&server] {
    absl::StatusOr<Socket> socket = Socket::Connect(server->address(), SteadyNow() + kLong);
    EXPECT_OK(socket);
    return *std::move(socket);
  };
  const Frame hello = {
      .kind = FrameKind::kHello, .key = std::string(kNonceSize, 'n'), .value = "1"};
  {
    // The token itself, as an older rank said it.
    const Socket socket = connect();
    EXPECT_EQ(AnswerTo(socket, {.kind = FrameKind::kHello, .key = "secret", .value = "1"}),
              "say who you are first");
  }
  for (const Frame& guess :
       {Frame{.kind = FrameKind::kProof}, Frame{.kind = FrameKind::kProof, .key = "secret"},
        Frame{.kind = FrameKind::kProof, .key = std::string(kProofSize, '\0')},
        Frame{.kind = FrameKind::kSet, .key = RankFact(0), .value = "boot h:1"}, hello}) {
    const Socket socket = connect();
    EXPECT_EQ(AnswerTo(socket, hello), kChallenged);
    EXPECT_EQ(AnswerTo(socket, guess), "wrong token");
  }
  const RawRank rank(*server, 0, 1);
  rank.Meet();
}

// The nonce of the listener is another one each time.
TEST(RendezvousServer, ARecordedHandshakeIsRefusedTheSecondTime) {
  const std::unique_ptr<RendezvousServer> server = ServerOf(1);
  Handshake handshake = {.purpose = kMeetingPurpose, .context = "1"};
  Frame proof = {.kind = FrameKind::kProof};
  {
    ASSERT_OK_AND_ASSIGN(Socket rank, Socket::Connect(server->address(), SteadyNow() + kLong));
    ASSERT_OK(SayHello(rank, handshake, SteadyNow() + kLong));
    ASSERT_OK_AND_ASSIGN(const Frame challenge, ReadFrame(rank, SteadyNow() + kLong));
    handshake.listener_nonce = challenge.key;
    proof.key = MakeProof(HandshakeSide::kCaller, handshake, "secret");
    // Reflected: the proof of the listener is none of a caller.
    ASSERT_OK_AND_ASSIGN(const Socket mirror,
                         Socket::Connect(server->address(), SteadyNow() + kLong));
    EXPECT_EQ(
        AnswerTo(mirror, {.kind = FrameKind::kHello, .key = handshake.caller_nonce, .value = "1"}),
        kChallenged);
    EXPECT_EQ(AnswerTo(mirror, {.kind = FrameKind::kProof, .key = challenge.value}), "wrong token");
    ASSERT_OK(WriteFrame(rank, proof, SteadyNow() + kLong));
    ASSERT_OK(rank.FinishTls(TlsSide::kClient, TlsKeyOf(handshake, "secret"), SteadyNow() + kLong));
    ASSERT_OK_AND_ASSIGN(const Frame welcome, ReadFrame(rank, SteadyNow() + kLong));
    EXPECT_EQ(welcome.kind, FrameKind::kWelcome);
    ASSERT_OK(WriteFrame(rank, {.kind = FrameKind::kGoodbye}, SteadyNow() + kLong));
  }
  ASSERT_OK_AND_ASSIGN(const Socket replay,
                       Socket::Connect(server->address(), SteadyNow() + kLong));
  EXPECT_EQ(
      AnswerTo(replay, {.kind = FrameKind::kHello, .key = handshake.caller_nonce, .value = "1"}),
      kChallenged);
  EXPECT_EQ(AnswerTo(replay, proof), "wrong token");
}

TEST(RendezvousServer, FollowsTheWaitsToTheRankThatWaitsForNone) {
  const std::unique_ptr<RendezvousServer> server = ServerOf(3);
  const RawRank first(*server, 0, 3);
  const RawRank second(*server, 1, 3);
  const RawRank busy(*server, 2, 3);
  first.Write({.kind = FrameKind::kStalled, .number = 1 + 1, .value = "a sum took long"});
  second.Write({.kind = FrameKind::kStalled, .number = 2 + 1, .value = "a sum took long"});
  EXPECT_EQ(first.Read().kind, FrameKind::kProbe);
  EXPECT_EQ(busy.Read().kind, FrameKind::kProbe);
  first.Write({.kind = FrameKind::kWaits, .number = 1 + 1});
  busy.Write({.kind = FrameKind::kWaits, .number = 0});
  const Frame told = first.Read();
  EXPECT_EQ(told.kind, FrameKind::kFailure);
  EXPECT_THAT(told.value, HasSubstr("rank 2 is the one that is waited for"));
}

TEST(RendezvousServer, StrangersThatSayNothingAreDroppedInTime) {
  HandClock clock;
  const std::unique_ptr<RendezvousServer> server = ServerOf(1, &clock);
  ASSERT_OK_AND_ASSIGN(const Socket silent,
                       Socket::Connect(server->address(), SteadyNow() + kLong));
  ASSERT_OK_AND_ASSIGN(const Socket slow, Socket::Connect(server->address(), SteadyNow() + kLong));
  ASSERT_OK(slow.WriteAll(std::string(1, '\1'), SteadyNow() + kLong));
  // Accepted after both.
  const RawRank rank(*server, 0, 1);
  clock.Advance(absl::Seconds(5));
  rank.Meet();
  char byte = 0;
  for (const Socket* const stranger : {&silent, &slow}) {
    EXPECT_THAT(stranger->ReadAll(&byte, 1, SteadyNow() + kLong),
                StatusIs(absl::StatusCode::kUnavailable));
  }
  rank.Meet();
}

// A limit of the descriptors of this process while it exists.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t limit) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit lower = {.rlim_cur = limit, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

TEST(RendezvousServer, ManyStrangersTakeNoDescriptorsFromTheJob) {
  std::unique_ptr<RendezvousServer> server;
  {
    const DescriptorLimit limit(128);
    server = ServerOf(1);
  }
  // More than the server's process may have; this one has the other ends.
  std::vector<Socket> strangers;
  for (int k = 0; k < 200; ++k) {
    absl::StatusOr<Socket> stranger = Socket::Connect(server->address(), SteadyNow() + kLong);
    ASSERT_OK(stranger);
    strangers.push_back(*std::move(stranger));
  }
  const RawRank rank(*server, 0, 1);
  rank.Meet();
  // A quarter of 128 is left, the oldest are gone.
  char byte = 0;
  for (int k = 0; k < 200 - 32; ++k) {
    EXPECT_THAT(strangers[k].ReadAll(&byte, 1, SteadyNow() + kLong),
                StatusIs(absl::StatusCode::kUnavailable))
        << k;
  }
  rank.Meet();
}

// Nothing is left to accept a connection with, but for the one in reserve.
TEST(RendezvousServer, GoesOnWhenTheProcessHasNoDescriptorsLeft) {
  const std::unique_ptr<RendezvousServer> server = ServerOf(1);
  const RawRank rank(*server, 0, 1);
  std::vector<Socket> strangers;
  for (int k = 0; k < 3; ++k) {
    // Made before, so that connecting needs no descriptor.
    strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  const std::string address = server->address();
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  // UndefinedBehaviorSanitizer needs descriptors when it sees a class for the first time: this
  // round shows it every class of a meeting, and the matchers look at the answers after the full
  // table.
  rank.Meet();
  std::vector<absl::Status> answers;
  {
    // Every number below the highest in use is taken, and no higher one is allowed.
    std::vector<Socket> fillers;
    const DescriptorLimit limit(static_cast<rlim_t>(strangers.back().descriptor()) + 64);
    while (true) {
      Socket filler(::dup(rank.socket.descriptor()));
      if (!filler.is_open()) break;
      fillers.push_back(std::move(filler));
    }
    for (const Socket& stranger : strangers) {
      ASSERT_EQ(
          ::connect(stranger.descriptor(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
      char byte = 0;
      answers.push_back(stranger.ReadAll(&byte, 1, SteadyNow() + kLong));
    }
    rank.Meet();
  }
  EXPECT_THAT(answers, Each(StatusIs(absl::StatusCode::kUnavailable)));
  rank.Meet();
  ASSERT_OK(Socket::Connect(address, SteadyNow() + kLong).status());
}

}  // namespace
}  // namespace parplan
