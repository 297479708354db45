// With name servers that say nothing or are not there; tests/integration/replicas asks a real one.

#include "profiler-agent/replicas/resolve_name.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/reserved_port.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ServerTarget Target(const std::string& name, const std::string& dns_server) {
  ServerTarget target;
  target.kind = ServerTarget::Kind::kName;
  target.name = name;
  target.port = 9477;
  target.dns_server = dns_server;
  return target;
}

// A port of 127.0.0.1 where questions come in and nothing goes out.
class SilentNameServer {
 public:
  SilentNameServer() : socket_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~SilentNameServer() { ::close(socket_); }

  const std::string& address() const { return address_; }
  void AwaitQuestion() {
    char question[512];
    EXPECT_GT(::recv(socket_, question, sizeof(question), 0), 0);
  }

 private:
  const int socket_;
  std::string address_;
};

TEST(ResolveName, KnowsWhereLocalhostIs) {
  const std::atomic<bool> is_stopped = false;
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> addresses,
                       ResolveName(Target("localhost", ""), is_stopped));
  EXPECT_THAT(addresses, ElementsAre("127.0.0.1:9477", "[::1]:9477"));
}

TEST(ResolveName, EndsWhenItIsStopped) {
  SilentNameServer server;
  std::atomic<bool> is_stopped = false;
  std::thread stopper([&] {
    server.AwaitQuestion();
    is_stopped = true;
  });
  EXPECT_THAT(ResolveName(Target("planner.example", server.address()), is_stopped).status(),
              StatusIs(absl::StatusCode::kCancelled));
  stopper.join();
}

TEST(ResolveName, SaysWhoKnowsNothing) {
  const std::atomic<bool> is_stopped = false;
  const ReservedPort port;
  const std::string nobody = absl::StrCat("127.0.0.1:", port.number());
  EXPECT_THAT(ResolveName(Target("planner.example", nobody), is_stopped).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       testing::AllOf(HasSubstr("planner.example"), HasSubstr(nobody))));
  EXPECT_THAT(ResolveName(Target("planner.example", "no address"), is_stopped).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no address")));
}

}  // namespace
}  // namespace parplan
