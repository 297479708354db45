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
#include "absl/types/span.h"
#include "executor/device/comm/steady_clock.h"
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

// Returns a socket that listens, and whose queue is full: it swallows what comes.
std::pair<Socket, std::vector<Socket>> SwallowingListener(SocketAddress& address) {
  Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(listener.descriptor(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
  EXPECT_EQ(::listen(listener.descriptor(), 0), 0);
  address.length = sizeof(address.address);
  EXPECT_EQ(::getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&address.address),
                          &address.length),
            0);
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

TEST(Socket, AnAddressThatSwallowsPacketsDoesNotHideTheNext) {
  std::vector<SocketAddress> addresses(2);
  const auto dead = SwallowingListener(addresses[0]);
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listener::Open("127.0.0.1", 0));
  addresses[1].length = sizeof(addresses[1].address);
  ASSERT_EQ(::getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&addresses[1].address),
                          &addresses[1].length),
            0);
  // The deadline is far: without a limit for each address this would wait for it.
  EXPECT_OK(
      Socket::ConnectToAny(addresses, "two", SteadyNow() + kLong, absl::Milliseconds(50)).status());
  // Whoever waits hears of each attempt, and the next one is made after it.
  std::vector<std::string> failures;
  EXPECT_OK(Socket::ConnectToAny(addresses, "two", SteadyNow() + kLong, absl::Milliseconds(50),
                                 [&failures](const absl::Status& failure) {
                                   failures.emplace_back(failure.message());
                                 })
                .status());
  EXPECT_THAT(failures, testing::ElementsAre(HasSubstr("cannot connect to two")));
  // One alone is tried to the end.
  EXPECT_THAT(Socket::ConnectToAny(absl::MakeConstSpan(addresses).first(1), "one",
                                   SteadyNow() + absl::Milliseconds(100), absl::Milliseconds(50))
                  .status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot connect to one")));
}

}  // namespace
}  // namespace parplan
