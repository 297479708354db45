#include "clients/delivery/backoff.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace parplan {
namespace {

TEST(BackoffPause, DoublesUpToItsEndWithJitter) {
  const BackoffOptions options = {absl::Seconds(1), absl::Seconds(10)};
  EXPECT_EQ(BackoffPause(options, 1, 1.0), absl::Seconds(1));
  EXPECT_EQ(BackoffPause(options, 1, 0.0), absl::Milliseconds(500));
  EXPECT_EQ(BackoffPause(options, 3, 1.0), absl::Seconds(4));
  EXPECT_EQ(BackoffPause(options, 3, 0.5), absl::Seconds(3));
  EXPECT_EQ(BackoffPause(options, 1000, 1.0), absl::Seconds(10));
  EXPECT_EQ(BackoffPause(options, 1000, 0.0), absl::Seconds(5));
}

}  // namespace
}  // namespace parplan
