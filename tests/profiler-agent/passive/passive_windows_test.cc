#include "profiler-agent/passive/passive_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "profiler-agent/drift/window_spool.h"
#include "tests/profiler-agent/passive/fake_nccl.h"

namespace parplan {
namespace {

using testing::SizeIs;

PassiveSample Sample(int64_t size, int64_t nanoseconds) {
  return {.shape = {.operation = PassiveOperation::kBroadcast,
                    .participant_count = 2,
                    .rank_stride = 1,
                    .size_bytes = size},
          .nanoseconds = nanoseconds};
}

TEST(PassiveWindow, KeepsTheLatestDurationsOfManyAndCountsAll) {
  const SpoolFolder folder;
  PassiveWindow window;
  for (int i = 0; i < 1000; ++i) window.Add(Sample(8, 5000000000));
  for (size_t i = 0; i < PassiveWindow::kMaxDurations; ++i) window.Add(Sample(8, 1500000001));
  ASSERT_TRUE(LeaveFile(folder.path(), "one", window.ToJson(3, 9), 10));
  const auto timings = WindowSpool(folder.path()).Take();
  ASSERT_THAT(timings, SizeIs(1));
  EXPECT_EQ(timings[0].collective(), v1::COLLECTIVE_BROADCAST);
  EXPECT_EQ(timings[0].median_duration().seconds(), 1);
  EXPECT_EQ(timings[0].median_duration().nanos(), 500000001);
  EXPECT_EQ(timings[0].sample_count(), 2024);
}

TEST(PassiveWindow, TakesSoManyShapesAndCountsTheOthers) {
  PassiveWindow window;
  for (int64_t i = 1; i <= 300; ++i) window.Add(Sample(i, 10));
  EXPECT_EQ(window.lost_count(), 300 - static_cast<int64_t>(PassiveWindow::kMaxShapes));
}

// Whoever may write to the folder could have this process write to any file of its user.
TEST(LeaveFile, FollowsNoLink) {
  const SpoolFolder folder;
  const std::string target = folder.path() + "/precious";
  std::ofstream(target) << "kept";
  for (const char* const name : {"a.window.json.new", "a.window.json"}) {
    std::filesystem::create_symlink(target, folder.path() + "/" + name);
    EXPECT_TRUE(LeaveFile(folder.path(), "a", "{}", 2));
    std::string text;
    std::ifstream(target) >> text;
    EXPECT_EQ(text, "kept") << name;
    EXPECT_FALSE(std::filesystem::is_symlink(folder.path() + "/a.window.json"));
    std::filesystem::remove(folder.path() + "/a.window.json");
  }
}

TEST(LeaveFile, LeavesNoMoreThanMayWait) {
  const SpoolFolder folder;
  EXPECT_TRUE(LeaveFile(folder.path(), "a", "{}", 2));
  EXPECT_TRUE(LeaveFile(folder.path(), "b", "{}", 2));
  EXPECT_FALSE(LeaveFile(folder.path(), "c", "{}", 2));
  EXPECT_EQ(folder.FileCount(), 2);
  EXPECT_FALSE(LeaveFile(folder.path() + "/nowhere", "a", "{}", 2));
}

}  // namespace
}  // namespace parplan
