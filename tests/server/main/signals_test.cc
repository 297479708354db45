#include "server/main/signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "absl/time/time.h"

namespace parplan {
namespace {

// A death test runs in a process of its own, whose signals are left as they are here.
TEST(SignalsDeathTest, TheNextOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        const Signals signals;
        raise(SIGTERM);
        if (signals.Next(absl::Seconds(20)) != SIGTERM) std::_Exit(1);
        signals.EndAtOnceOnNext();
        raise(SIGHUP);
        raise(SIGINT);
        std::_Exit(2);
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

// One that came before, while nobody waited for it.
TEST(SignalsDeathTest, OneThatWaitsEndsTheProcess) {
  EXPECT_EXIT(
      {
        const Signals signals;
        raise(SIGTERM);
        signals.EndAtOnceOnNext();
        std::_Exit(2);
      },
      testing::ExitedWithCode(128 + SIGTERM), "");
}

}  // namespace
}  // namespace parplan
