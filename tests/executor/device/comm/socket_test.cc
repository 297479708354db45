#include "executor/device/comm/socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/system/steady_clock.h"
#include "tests/executor/device/comm/raw_rank.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

// A machine without power says no word; its peers must ask.
TEST(Socket, BothEndsAskAfterASilentPeer) {
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listener::Open("127.0.0.1", 0));
  const absl::Duration deadline = SteadyNow() + absl::Minutes(5);
  ASSERT_OK_AND_ASSIGN(const Socket caller,
                       Socket::Connect(absl::StrCat("127.0.0.1:", listener.port()), deadline));
  ASSERT_OK_AND_ASSIGN(const Socket called, listener.Accept(deadline));
  for (const Socket* socket : {&caller, &called}) {
    const auto option = [&](int level, int name) {
      int value = 0;
      socklen_t length = sizeof(value);
      EXPECT_EQ(::getsockopt(socket->descriptor(), level, name, &value, &length), 0);
      return value;
    };
    EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_LE(option(IPPROTO_TCP, TCP_KEEPIDLE) +
                  option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT),
              30);
  }
}

// Returns a socket that has an address and does not listen: it refuses what comes.
Socket BoundSocket(SocketAddress& address) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
  address.length = sizeof(address.address);
  EXPECT_EQ(::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address.address),
                          &address.length),
            0);
  return socket;
}

// Returns a socket that listens, and whose queue is full: it swallows what comes.
std::pair<Socket, std::vector<Socket>> SwallowingListener(SocketAddress& address) {
  Socket listener = BoundSocket(address);
  EXPECT_EQ(::listen(listener.descriptor(), 0), 0);
  std::vector<Socket> waiting;
  while (true) {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int result = ::connect(
        socket.descriptor(), reinterpret_cast<const sockaddr*>(&address.address), address.length);
    pollfd interest = {.fd = socket.descriptor(), .events = POLLOUT, .revents = 0};
    const bool is_through = result == 0 || ::poll(&interest, 1, 200) == 1;
    waiting.push_back(std::move(socket));
    if (!is_through) return {std::move(listener), std::move(waiting)};
  }
}

// Returns the address of a listener.
SocketAddress AddressOf(const Listener& listener) {
  SocketAddress own;
  own.length = sizeof(own.address);
  EXPECT_EQ(
      ::getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&own.address), &own.length),
      0);
  return own;
}

TEST(Socket, AnAddressThatSwallowsPacketsDoesNotHideTheNext) {
  SocketAddress swallowing;
  const auto dead = SwallowingListener(swallowing);
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listener::Open("127.0.0.1", 0));
  const auto both = [&] { return std::vector<SocketAddress>{swallowing, AddressOf(listener)}; };
  const ConnectIntervals intervals = {.address_patience = absl::Milliseconds(50)};
  // The deadline is far: without a limit for each address this would wait for it.
  EXPECT_OK(Socket::ConnectToAny(both, "two", SteadyNow() + kLong, intervals).status());
  // Whoever waits hears of each attempt, and the next one is made after it.
  std::vector<std::string> failures;
  EXPECT_OK(Socket::ConnectToAny(both, "two", SteadyNow() + kLong, intervals,
                                 [&failures](const absl::Status& failure) {
                                   failures.emplace_back(failure.message());
                                 })
                .status());
  EXPECT_THAT(failures, testing::ElementsAre(HasSubstr("cannot connect to two")));
  // One alone is tried to the end.
  const auto one = [&] { return std::vector<SocketAddress>{swallowing}; };
  EXPECT_THAT(
      Socket::ConnectToAny(one, "one", SteadyNow() + absl::Milliseconds(100), intervals).status(),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot connect to one")));
}

TEST(Socket, AnAddressForWhichNoSocketCanBeMadeSaysWhy) {
  SocketAddress unsupported;
  unsupported.address.ss_family = AF_MAX;
  unsupported.length = sizeof(sockaddr_in);
  std::vector<std::string> failures;
  EXPECT_THAT(Socket::ConnectToAny([&] { return std::vector<SocketAddress>{unsupported}; },
                                   "mars:7", SteadyNow() + absl::Milliseconds(1), {},
                                   [&failures](const absl::Status& failure) {
                                     failures.emplace_back(failure.message());
                                   })
                  .status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not supported")));
  EXPECT_THAT(failures, testing::Contains(HasSubstr("cannot connect to mars:7")));
}

// A pod that is replaced has another address, and none in between.
TEST(Socket, AHostThatMovesIsFound) {
  SocketAddress before;
  const Socket closed = BoundSocket(before);
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listener::Open("127.0.0.1", 0));
  int question_count = 0;
  const auto resolve = [&]() -> absl::StatusOr<std::vector<SocketAddress>> {
    ++question_count;
    if (question_count == 2) return absl::UnavailableError("no such host now");
    return std::vector<SocketAddress>{question_count < 4 ? before : AddressOf(listener)};
  };
  std::vector<std::string> failures;
  EXPECT_OK(
      Socket::ConnectToAny(
          resolve, "rank-0:7", SteadyNow() + kLong, {.resolve_interval = absl::ZeroDuration()},
          [&failures](const absl::Status& failure) { failures.emplace_back(failure.message()); })
          .status());
  EXPECT_EQ(question_count, 4);
  EXPECT_THAT(failures, testing::ElementsAre(
                            HasSubstr("cannot connect to rank-0:7"), HasSubstr("no such host now"),
                            HasSubstr("cannot connect to rank-0:7"), HasSubstr("cannot connect")));
}

TEST(Socket, AsksForAddressesAtMostOnceInAnInterval) {
  SocketAddress address;
  const Socket closed = BoundSocket(address);
  int question_count = 0;
  int attempt_count = 0;
  const auto resolve = [&] {
    ++question_count;
    return std::vector<SocketAddress>{address};
  };
  EXPECT_THAT(Socket::ConnectToAny(resolve, "rank-0:7", SteadyNow() + absl::Milliseconds(200),
                                   {.resolve_interval = kLong},
                                   [&](const absl::Status&) { ++attempt_count; })
                  .status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank-0:7")));
  EXPECT_EQ(question_count, 1);
  EXPECT_GE(attempt_count, 1);
  // A host that is not known at first may be a wrong name.
  EXPECT_THAT(Socket::ConnectToAny([] { return absl::NotFoundError("no such host"); }, "x:7",
                                   SteadyNow() + kLong)
                  .status(),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace parplan
