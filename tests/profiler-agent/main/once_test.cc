#include "profiler-agent/main/once.h"

#include <gtest/gtest.h>

#include <iostream>
#include <streambuf>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// A standard output that takes nothing, such as one on a full disk.
class FullBuffer : public std::streambuf {};

TEST(PrintInventory, SaysThatStandardOutputIsFull) {
  FullBuffer full;
  std::streambuf* const usual = std::cout.rdbuf(&full);
  const absl::Status status = PrintInventory(Settings());
  std::cout.rdbuf(usual);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace parplan
