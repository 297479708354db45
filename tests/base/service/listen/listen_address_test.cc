#include "base/service/listen/listen_address.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(CheckListenAddress, TakesHostAndPortOrASocket) {
  for (const char* const address : {"127.0.0.1:9477", "0.0.0.0:0", "[::1]:9477", "[::]:1",
                                    "localhost:65535", "unix:/run/s", "planner.example.org:80"}) {
    EXPECT_OK(CheckListenAddress(address)) << address;
  }
  for (const char* const address : {"", "9477", ":9477", "127.0.0.1", "127.0.0.1:", "::1:9477",
                                    "127.0.0.1:65536", "127.0.0.1:-1", "unix:", "host:http",
                                    "[]:9477", "[host]:9477", "[:9477", "]:9477", "[::1:9477"}) {
    EXPECT_THAT(CheckListenAddress(address),
                IsRefused(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid))
        << address;
  }
}

TEST(IsLocalAddress, IsTrueOnlyWhereNoOtherMachineReaches) {
  for (const char* const address : {"127.0.0.1:0", "127.255.3.4:9", "[::1]:9477", "localhost:9477",
                                    "LOCALHOST:1", "unix:/run/s"}) {
    EXPECT_TRUE(IsLocalAddress(address)) << address;
  }
  for (const char* const address :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:9477", "127.0.0.1.example.org:1", "127.1:1",
        "localhost.example.org:1", "127.0.0.999:1", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_FALSE(IsLocalAddress(address)) << address;
  }
}

}  // namespace
}  // namespace parplan
