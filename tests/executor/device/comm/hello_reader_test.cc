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
#include "executor/device/comm/steady_clock.h"
#include "tests/executor/device/comm/raw_rank.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// The two ends of a connection.
std::pair<Socket, Socket> Connection() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

Frame Hello(const std::string& token) {
  return {.kind = FrameKind::kHello, .number = 3, .key = token, .value = "group"};
}

TEST(HelloReader, StrangersDelayNobodyAndWhatFollowsAHelloStays) {
  HelloReader reader("secret");
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
  auto [rank, ours] = Connection();
  ASSERT_OK(WriteFrame(rank, Hello("secret"), SteadyNow() + kLong));
  ASSERT_OK(rank.WriteAll("data", SteadyNow() + kLong));
  reader.Add(std::move(ours), absl::ZeroDuration());
  std::vector<HelloReader::Guest> guests = reader.Take(absl::ZeroDuration());
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_EQ(guests[0].hello.number, 3u);
  EXPECT_EQ(guests[0].hello.value, "group");
  std::string data(4, ' ');
  ASSERT_OK(guests[0].socket.ReadAll(data.data(), 4, SteadyNow() + kLong));
  EXPECT_EQ(data, "data");
  EXPECT_FALSE(reader.empty());
  EXPECT_TRUE(reader.Take(HelloReader::kPatience).empty());
  EXPECT_TRUE(reader.empty());
}

TEST(HelloReader, AHelloMayComeInParts) {
  HelloReader reader("secret");
  auto [rank, ours] = Connection();
  auto [other, other_end] = Connection();
  ASSERT_OK(WriteFrame(other, Hello("secret"), SteadyNow() + kLong));
  std::string bytes(1000, ' ');
  const ssize_t size = ::recv(other_end.descriptor(), bytes.data(), bytes.size(), 0);
  ASSERT_GT(size, 10);
  bytes.resize(static_cast<size_t>(size));
  reader.Add(std::move(ours), absl::ZeroDuration());
  ASSERT_OK(rank.WriteAll(bytes.substr(0, 10), SteadyNow() + kLong));
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  ASSERT_OK(rank.WriteAll(bytes.substr(10), SteadyNow() + kLong));
  EXPECT_EQ(reader.Take(absl::ZeroDuration()).size(), 1u);
}

// Returns the header of a hello, as it is sent.
std::string HeaderBytes(FrameKind kind, size_t key_size, size_t value_size) {
  const std::array<uint32_t, 4> header = {static_cast<uint32_t>(kind), 3,
                                          static_cast<uint32_t>(key_size),
                                          static_cast<uint32_t>(value_size)};
  std::string bytes(sizeof(header), ' ');
  std::memcpy(bytes.data(), header.data(), sizeof(header));
  return bytes;
}

// Returns the id of a group as JobFabric makes it.
std::string GroupOf(int rank_count) {
  std::vector<int> ranks(rank_count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return absl::StrCat("data:", absl::StrJoin(ranks, ","), "#0");
}

TEST(HelloReader, AGroupMayHaveThousandsOfRanks) {
  HelloReader reader("secret");
  auto [rank, ours] = Connection();
  Frame hello = Hello("secret");
  hello.value = GroupOf(2000);
  ASSERT_GT(hello.value.size(), 8000u);
  ASSERT_OK(WriteFrame(rank, hello, SteadyNow() + kLong));
  ASSERT_OK(rank.WriteAll("data", SteadyNow() + kLong));
  reader.Add(std::move(ours), absl::ZeroDuration());
  const std::vector<HelloReader::Guest> guests = reader.Take(absl::ZeroDuration());
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_EQ(guests[0].hello.key, "secret");
  EXPECT_EQ(guests[0].hello.value, hello.value);
  std::string data(4, ' ');
  ASSERT_OK(guests[0].socket.ReadAll(data.data(), 4, SteadyNow() + kLong));
  EXPECT_EQ(data, "data");
}

// The kernel keeps less than that, and its rank waits until the reader takes it.
TEST(HelloReader, AHelloThatIsLongerThanABufferComesInParts) {
  const std::string token = "secret";
  const std::string group = GroupOf(100'000);
  HelloReader reader(token);
  auto [rank, ours] = Connection();
  const std::string bytes =
      absl::StrCat(HeaderBytes(FrameKind::kHello, token.size(), group.size()), token, group);
  absl::Duration now;
  reader.Add(std::move(ours), now);
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
  EXPECT_EQ(guests[0].hello.number, 3u);
  EXPECT_EQ(guests[0].hello.value, group);
}

TEST(HelloReader, AStrangerIsDroppedAtItsHeaderOrItsToken) {
  HelloReader reader("secret");
  std::vector<Socket> ends;
  // The rest of each never comes.
  for (const std::string& bytes :
       {HeaderBytes(FrameKind::kHello, 7, 0), HeaderBytes(FrameKind::kProbe, 6, 0),
        absl::StrCat(HeaderBytes(FrameKind::kHello, 6, 1000), "secres")}) {
    auto [stranger, ours] = Connection();
    ASSERT_OK(stranger.WriteAll(bytes, SteadyNow() + kLong));
    reader.Add(std::move(ours), absl::ZeroDuration());
    ends.push_back(std::move(stranger));
  }
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  EXPECT_TRUE(reader.empty());
}

TEST(HelloReader, AwaitsConnectionsAndHellosButNoSilentStranger) {
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listener::Open("127.0.0.1", 0));
  HelloReader reader("secret");
  auto [stranger, ours] = Connection();
  ASSERT_OK(stranger.WriteAll("x", SteadyNow() + kLong));
  reader.Add(std::move(ours), absl::ZeroDuration());
  auto [rank, other_end] = Connection();
  reader.Add(std::move(other_end), absl::ZeroDuration());
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  // The byte that has come is no reason to wake again.
  const absl::Duration deadline = SteadyNow() + absl::Milliseconds(20);
  EXPECT_FALSE(reader.Await(listener, deadline));
  EXPECT_GE(SteadyNow(), deadline);
  // A hello ends the wait long before its deadline, and so does a connection.
  const absl::Duration start = SteadyNow();
  ASSERT_OK(WriteFrame(rank, Hello("secret"), SteadyNow() + kLong));
  EXPECT_FALSE(reader.Await(listener, SteadyNow() + kLong));
  EXPECT_EQ(reader.Take(absl::ZeroDuration()).size(), 1u);
  ASSERT_OK_AND_ASSIGN(
      const Socket caller,
      Socket::Connect(absl::StrCat("127.0.0.1:", listener.port()), SteadyNow() + kLong));
  EXPECT_TRUE(reader.Await(listener, SteadyNow() + kLong));
  EXPECT_LT(SteadyNow() - start, kLong);
}

TEST(HelloReader, OtherTokensAndOtherMessagesAreDropped) {
  HelloReader reader("secret");
  std::vector<Socket> ends;
  Frame probe = Hello("secret");
  probe.kind = FrameKind::kProbe;
  for (const Frame& frame : {Hello("secres"), Hello("secret1"), Hello(""), probe}) {
    auto [rank, ours] = Connection();
    ASSERT_OK(WriteFrame(rank, frame, SteadyNow() + kLong));
    reader.Add(std::move(ours), absl::ZeroDuration());
    ends.push_back(std::move(rank));
  }
  auto [noise, ours] = Connection();
  ASSERT_OK(noise.WriteAll(std::string(5000, '\xff'), SteadyNow() + kLong));
  reader.Add(std::move(ours), absl::ZeroDuration());
  {
    auto [ended, end] = Connection();
    reader.Add(std::move(end), absl::ZeroDuration());
  }
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  EXPECT_TRUE(reader.empty());
}

TEST(HelloReader, TheOldestOfManyStrangersGivesWay) {
  HelloReader reader("secret");
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

}  // namespace
}  // namespace parplan
