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
  for (const double seconds : {0.0, -1.0, 1e12, 1e300, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
    flags.timeout_seconds = seconds;
    EXPECT_THAT(flags.Connect().status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("--timeout: must be above 0 and at most 2592000")))
        << seconds;
  }
  for (const double seconds : {1e-3, 60.0, 2'592'000.0}) {
    flags.timeout_seconds = seconds;
    EXPECT_OK(flags.Connect().status()) << seconds;
    EXPECT_EQ(flags.Call().timeout, absl::Seconds(seconds));
  }
}

}  // namespace
}  // namespace parplan::planctl
