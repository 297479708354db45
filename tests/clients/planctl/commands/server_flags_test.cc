#include "clients/planctl/commands/server_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::HasSubstr;

TEST(ServerFlags, TimeoutsAreThoseThatADeadlineCanHave) {
  ServerFlags flags;
  const shell::Session session;
  for (const double seconds : {0.0, -1.0, 1e12, 1e300, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
    flags.timeout_seconds = seconds;
    EXPECT_THAT(flags.Connect(session).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("--timeout: must be above 0 and at most 2592000")))
        << seconds;
  }
  for (const double seconds : {1e-3, 60.0, 2'592'000.0}) {
    flags.timeout_seconds = seconds;
    EXPECT_OK(flags.Connect(session).status()) << seconds;
    EXPECT_EQ(flags.Call().timeout, absl::Seconds(seconds));
  }
}

TEST(ServerFlags, PlainTextToOtherMachinesIsSaid) {
  for (const char* const local :
       {"127.0.0.1:9477", "localhost:9477", "[::1]:9477", "unix:/run/parplan/socket",
        "unix-abstract:parplan", "dns:///localhost:9477", "ipv4:127.0.0.1:1,127.0.0.2:2"}) {
    EXPECT_EQ(PlainTextNote({.target = local}), "") << local;
  }
  for (const char* const other : {"planner.lab:9477", "dns:///planner.lab:9477", "10.0.0.1:9477",
                                  "ipv4:127.0.0.1:1,10.0.0.2:2", "127.0.0.1.lab:9477"}) {
    EXPECT_THAT(PlainTextNote({.target = other}), HasSubstr("without TLS")) << other;
    EXPECT_EQ(PlainTextNote({.target = other, .use_tls = true}), "") << other;
    EXPECT_EQ(PlainTextNote({.target = other, .ca_file = "ca.pem"}), "") << other;
  }
}

}  // namespace
}  // namespace parplan::planctl
