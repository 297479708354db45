#include "executor/device/comm/hello_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

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
