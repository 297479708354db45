#include "profiler-agent/daemon/wake_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

// Longer than any test sleeps.
constexpr absl::Duration kLong = absl::Hours(1);

TEST(WakeSet, WakesForCallsOfOtherThreads) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WakeSet> wakes, WakeSet::Create(""));
  std::thread caller([&wakes] { wakes->Call(); });
  const WakeSet::Causes causes = wakes->Wait(kLong);
  caller.join();
  EXPECT_TRUE(causes.is_called);
  EXPECT_FALSE(causes.has_new_files);
  EXPECT_EQ(causes.signal, 0);
  // Once for each call.
  EXPECT_FALSE(wakes->Wait(absl::ZeroDuration()).is_called);
  EXPECT_FALSE(wakes->Wait(-absl::InfiniteDuration()).is_called);
}

TEST(WakeSet, WakesForSignals) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WakeSet> wakes, WakeSet::Create(""));
  ASSERT_EQ(::kill(::getpid(), SIGTERM), 0);
  EXPECT_EQ(wakes->Wait(absl::InfiniteDuration()).signal, SIGTERM);
}

TEST(WakeSet, WakesForFilesThatCome) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WakeSet> wakes, WakeSet::Create(folder));
  std::ofstream(folder + "/a.new") << "x";
  ASSERT_EQ(std::rename((folder + "/a.new").c_str(), (folder + "/a").c_str()), 0);
  EXPECT_TRUE(wakes->Wait(kLong).has_new_files);
}

TEST(WakeSet, NamesTheFolderItCannotWatch) {
  EXPECT_THAT(
      WakeSet::Create("/that/is/not/there"),
      StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("/that/is/not/there")));
}

}  // namespace
}  // namespace parplan
