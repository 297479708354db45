#include "executor/device/comm/hello_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/tls_session.h"
#include "tests/executor/device/comm/raw_rank.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// The rank of the reader, and of whoever connects.
constexpr int kListener = 1;
constexpr int kCaller = 3;

// The two ends of a connection.
std::pair<Socket, Socket> Connection() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

// Returns a frame, as it is sent.
std::string BytesOf(const Frame& frame, size_t value_size) {
  const std::array<uint32_t, 4> header = {static_cast<uint32_t>(frame.kind), frame.number,
                                          static_cast<uint32_t>(frame.key.size()),
                                          static_cast<uint32_t>(value_size)};
  std::string bytes(sizeof(header), ' ');
  std::memcpy(bytes.data(), header.data(), sizeof(header));
  return absl::StrCat(bytes, frame.key, frame.value);
}
std::string BytesOf(const Frame& frame) { return BytesOf(frame, frame.value.size()); }

Frame Hello(const std::string& name = "group") {
  return {.kind = FrameKind::kHello,
          .number = kCaller,
          .key = std::string(kNonceSize, 'n'),
          .value = DigestOf(name)};
}

// Reads the challenge to `Hello(name)`, and returns the proof that a caller with `token` makes.
Frame ProofFor(const Socket& socket, const std::string& name, const std::string& token = "secret") {
  absl::StatusOr<Frame> challenge = ReadFrame(socket, SteadyNow() + kLong);
  EXPECT_OK(challenge);
  const Handshake handshake = {.purpose = kRanksPurpose,
                               .caller = kCaller,
                               .listener = kListener,
                               .context = DigestOf(name),
                               .caller_nonce = Hello().key,
                               .listener_nonce = challenge->key};
  EXPECT_TRUE(IsProof(challenge->value, HandshakeSide::kListener, handshake, "secret"));
  return {.kind = FrameKind::kProof,
          .key = MakeProof(HandshakeSide::kCaller, handshake, token),
          .value = name};
}

// A connection whose hello has been answered.
Socket Challenged(HelloReader& reader, const std::string& name = "group") {
  auto [caller, ours] = Connection();
  EXPECT_OK(WriteFrame(caller, Hello(name), SteadyNow() + kLong));
  reader.Add(std::move(ours), absl::ZeroDuration());
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  return std::move(caller);
}

TEST(HelloReader, StrangersDelayNobodyAndWhatFollowsAProofStays) {
  HelloReader reader("secret", kListener);
  std::vector<Socket> strangers;
  for (int i = 0; i < 120; ++i) {
    auto [stranger, ours] = Connection();
    // Some begin a message that they never end.
    if (i % 2 == 0) {
      EXPECT_OK(stranger.WriteAll("x", SteadyNow() + kLong));
    }
    strangers.push_back(std::move(stranger));
    reader.Add(std::move(ours), absl::ZeroDuration());
  }
  const Socket rank = Challenged(reader);
  ASSERT_OK(WriteFrame(rank, ProofFor(rank, "group"), SteadyNow() + kLong));
  ASSERT_OK(rank.WriteAll("data", SteadyNow() + kLong));
  std::vector<HelloReader::Guest> guests = reader.Take(absl::ZeroDuration());
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_EQ(guests[0].rank, kCaller);
  EXPECT_EQ(guests[0].name, "group");
  std::string data(4, ' ');
  ASSERT_OK(guests[0].socket.ReadAll(data.data(), 4, SteadyNow() + kLong));
  EXPECT_EQ(data, "data");
  EXPECT_FALSE(reader.empty());
  EXPECT_TRUE(reader.Take(HelloReader::kPatience).empty());
  EXPECT_TRUE(reader.empty());
}

TEST(HelloReader, MessagesMayComeInParts) {
  HelloReader reader("secret", kListener);
  auto [rank, ours] = Connection();
  reader.Add(std::move(ours), absl::ZeroDuration());
  const std::string hello = BytesOf(Hello());
  ASSERT_OK(rank.WriteAll(hello.substr(0, 10), SteadyNow() + kLong));
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  // Late, but a proof has a time of its own.
  ASSERT_OK(rank.WriteAll(hello.substr(10), SteadyNow() + kLong));
  EXPECT_TRUE(reader.Take(HelloReader::kPatience).empty());
  const std::string proof = BytesOf(ProofFor(rank, "group"));
  ASSERT_OK(rank.WriteAll(proof.substr(0, 20), SteadyNow() + kLong));
  EXPECT_TRUE(reader.Take(HelloReader::kPatience).empty());
  ASSERT_OK(rank.WriteAll(proof.substr(20), SteadyNow() + kLong));
  EXPECT_EQ(reader.Take(HelloReader::kPatience).size(), 1u);
}

// Returns the id of a group as JobFabric makes it.
std::string GroupOf(int rank_count) {
  std::vector<int> ranks(rank_count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return absl::StrCat("data:", absl::StrJoin(ranks, ","), "#0");
}

TEST(HelloReader, AGroupMayHaveThousandsOfRanks) {
  HelloReader reader("secret", kListener);
  const std::string name = GroupOf(2000);
  ASSERT_GT(name.size(), 8000u);
  const Socket rank = Challenged(reader, name);
  ASSERT_OK(WriteFrame(rank, ProofFor(rank, name), SteadyNow() + kLong));
  ASSERT_OK(rank.WriteAll("data", SteadyNow() + kLong));
  const std::vector<HelloReader::Guest> guests = reader.Take(absl::ZeroDuration());
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_EQ(guests[0].name, name);
  std::string data(4, ' ');
  ASSERT_OK(guests[0].socket.ReadAll(data.data(), 4, SteadyNow() + kLong));
  EXPECT_EQ(data, "data");
}

// The kernel keeps less than that, and its rank waits until the reader takes it.
TEST(HelloReader, ANameThatIsLongerThanABufferComesInParts) {
  const std::string group = GroupOf(100'000);
  HelloReader reader("secret", kListener);
  const Socket rank = Challenged(reader, group);
  const std::string bytes = BytesOf(ProofFor(rank, group));
  absl::Duration now;
  std::vector<HelloReader::Guest> guests;
  for (absl::string_view rest = bytes; !rest.empty();) {
    ASSERT_TRUE(guests.empty());
    const absl::string_view part = rest.substr(0, 50'000);
    ASSERT_OK(rank.WriteAll(part, SteadyNow() + kLong));
    rest.remove_prefix(part.size());
    // Whoever looks seldom drops none that goes on.
    now += HelloReader::kPatience;
    guests = reader.Take(now);
  }
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_EQ(guests[0].rank, kCaller);
  EXPECT_EQ(guests[0].name, group);
}

// So it cannot make the reader keep a long text.
TEST(HelloReader, AStrangerIsDroppedAtItsHeaderOrItsProof) {
  HelloReader reader("secret", kListener);
  std::vector<Socket> ends;
  Frame short_nonce = Hello();
  short_nonce.key.pop_back();
  Frame long_context = Hello();
  Frame probe = Hello();
  probe.kind = FrameKind::kProbe;
  // The rest of each never comes.
  for (const std::string& bytes :
       {BytesOf(short_nonce), BytesOf(long_context, 1000), BytesOf(probe),
        BytesOf({.kind = FrameKind::kHello, .key = "secret", .value = "group"}),
        std::string(5000, '\xff')}) {
    auto [stranger, ours] = Connection();
    ASSERT_OK(stranger.WriteAll(bytes, SteadyNow() + kLong));
    reader.Add(std::move(ours), absl::ZeroDuration());
    ends.push_back(std::move(stranger));
  }
  {
    auto [ended, end] = Connection();
    reader.Add(std::move(end), absl::ZeroDuration());
  }
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  EXPECT_TRUE(reader.empty());
  const Socket guesses = Challenged(reader);
  const Frame guess = {.kind = FrameKind::kProof, .key = ProofFor(guesses, "group", "secres").key};
  ASSERT_OK(guesses.WriteAll(BytesOf(guess, 1 << 20), SteadyNow() + kLong));
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  EXPECT_TRUE(reader.empty());
}

TEST(HelloReader, ProofsOfOthersAndOfOtherNamesAreDropped) {
  HelloReader reader("secret", kListener);
  const auto is_dropped = [&reader](const Socket& socket, const Frame& frame) {
    EXPECT_OK(WriteFrame(socket, frame, SteadyNow() + kLong));
    return reader.Take(absl::ZeroDuration()).empty() && reader.empty();
  };
  {
    // A recorded proof, which the next connection repeats.
    const Socket first = Challenged(reader);
    const Frame recorded = ProofFor(first, "group");
    const Socket second = Challenged(reader);
    ASSERT_OK(WriteFrame(second, recorded, SteadyNow() + kLong));
    EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
    ASSERT_OK(WriteFrame(first, recorded, SteadyNow() + kLong));
    EXPECT_EQ(reader.Take(absl::ZeroDuration()).size(), 1u);
    EXPECT_TRUE(reader.empty());
  }
  {
    // The reader's own proof, returned to it.
    const Socket socket = Challenged(reader);
    ASSERT_OK_AND_ASSIGN(const Frame challenge, ReadFrame(socket, SteadyNow() + kLong));
    EXPECT_TRUE(
        is_dropped(socket, {.kind = FrameKind::kProof, .key = challenge.value, .value = "group"}));
  }
  {
    // Another name than that of the hello.
    const Socket socket = Challenged(reader);
    Frame proof = ProofFor(socket, "group");
    proof.value = "grouq";
    EXPECT_TRUE(is_dropped(socket, proof));
  }
  {
    const Socket socket = Challenged(reader);
    EXPECT_TRUE(is_dropped(socket, Hello()));
  }
}

TEST(HelloReader, AwaitsConnectionsAndHellosButNoSilentStranger) {
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listener::Open("127.0.0.1", 0));
  const std::vector<int> others = {listener.descriptor()};
  HelloReader reader("secret", kListener);
  auto [stranger, ours] = Connection();
  ASSERT_OK(stranger.WriteAll("x", SteadyNow() + kLong));
  reader.Add(std::move(ours), absl::ZeroDuration());
  auto [rank, other_end] = Connection();
  reader.Add(std::move(other_end), absl::ZeroDuration());
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  // The byte that has come is no reason to wake again.
  const absl::Duration deadline = SteadyNow() + absl::Milliseconds(20);
  EXPECT_FALSE(reader.Await(others, deadline));
  EXPECT_GE(SteadyNow(), deadline);
  // A hello ends the wait long before its deadline, and so do a proof and a connection.
  const absl::Duration start = SteadyNow();
  ASSERT_OK(WriteFrame(rank, Hello(), SteadyNow() + kLong));
  EXPECT_FALSE(reader.Await(others, SteadyNow() + kLong));
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  ASSERT_OK(WriteFrame(rank, ProofFor(rank, "group"), SteadyNow() + kLong));
  EXPECT_FALSE(reader.Await(others, SteadyNow() + kLong));
  EXPECT_EQ(reader.Take(absl::ZeroDuration()).size(), 1u);
  ASSERT_OK_AND_ASSIGN(
      const Socket caller,
      Socket::Connect(absl::StrCat("127.0.0.1:", listener.port()), SteadyNow() + kLong));
  EXPECT_TRUE(reader.Await(others, SteadyNow() + kLong));
  EXPECT_LT(SteadyNow() - start, kLong);
}

TEST(HelloReader, TheOldestOfManyStrangersGivesWay) {
  HelloReader reader("secret", kListener);
  std::vector<Socket> strangers;
  for (size_t i = 0; i <= HelloReader::kMaxSilentCount; ++i) {
    auto [stranger, ours] = Connection();
    strangers.push_back(std::move(stranger));
    reader.Add(std::move(ours), absl::ZeroDuration());
  }
  char byte = 0;
  EXPECT_THAT(strangers[0].ReadAll(&byte, 1, SteadyNow() + kLong),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(strangers[1].ReadAll(&byte, 1, SteadyNow()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

// Proves itself as `kCaller` to a reader that wants TLS, and begins it.
Socket BeginTls(HelloReader& reader, Handshake& handshake) {
  auto [caller, ours] = Connection();
  reader.Add(std::move(ours), absl::ZeroDuration());
  handshake = {.purpose = kRanksPurpose,
               .caller = kCaller,
               .listener = kListener,
               .context = DigestOf("group")};
  EXPECT_OK(SayHello(caller, handshake, SteadyNow() + kLong));
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  EXPECT_OK(ProveTo(caller, handshake, "secret", "group", SteadyNow() + kLong));
  EXPECT_OK(caller.StartTls(TlsSide::kClient, TlsKeyOf(handshake, "secret")));
  EXPECT_THAT(caller.ContinueTls(), IsOkAndHolds(false));
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  return std::move(caller);
}

// Its own part of TLS is sent, so it does not come again.
TEST(HelloReader, WhoHasProvedItselfGivesWayToNoStranger) {
  HelloReader reader("secret", kListener, [](int, const std::string&) { return true; });
  Handshake handshake;
  const Socket rank = BeginTls(reader, handshake);
  std::vector<Socket> strangers;
  for (size_t i = 0; i <= HelloReader::kMaxSilentCount; ++i) {
    auto [stranger, ours] = Connection();
    strangers.push_back(std::move(stranger));
    reader.Add(std::move(ours), absl::ZeroDuration());
  }
  char byte = 0;
  EXPECT_THAT(strangers[0].ReadAll(&byte, 1, SteadyNow() + kLong),
              StatusIs(absl::StatusCode::kUnavailable));
  // The time of strangers is over.
  EXPECT_TRUE(reader.Take(HelloReader::kPatience).empty());
  EXPECT_FALSE(reader.empty());
  ASSERT_THAT(rank.ContinueTls(), IsOkAndHolds(true));
  ASSERT_OK(rank.WriteAll("data", SteadyNow() + kLong));
  const std::vector<HelloReader::Guest> guests = reader.Take(HelloReader::kPatience);
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_EQ(guests[0].rank, kCaller);
  EXPECT_TRUE(reader.empty());
}

// Somebody on the way who keeps connections open cannot make the reader hold more and more of them.
TEST(HelloReader, ACallerThatComesAgainReplacesItsConnection) {
  HelloReader reader("secret", kListener, [](int, const std::string&) { return true; });
  Handshake handshake;
  const Socket first = BeginTls(reader, handshake);
  const Socket second = BeginTls(reader, handshake);
  EXPECT_THAT(first.ContinueTls(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(second.ContinueTls(), IsOkAndHolds(true));
  EXPECT_EQ(reader.Take(absl::ZeroDuration()).size(), 1u);
  EXPECT_TRUE(reader.empty());
}

}  // namespace
}  // namespace parplan
