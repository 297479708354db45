#include "profiler-agent/drift/window_spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/windows/window_leaver.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Files that may wait.
constexpr int kPlenty = 10000;

v1::MeasuredWindow Window(int timing_count) {
  v1::MeasuredWindow window;
  window.set_rank(1);
  for (int i = 0; i < timing_count; ++i) {
    window.add_collective_timings()->set_message_size_bytes(1024 + i);
  }
  return window;
}

TEST(WindowSpool, TakesEachWindowOnce) {
  WindowSpool spool(MakeTestFolder());
  ASSERT_TRUE(LeaveWindow(spool.path(), "b", Window(2), kPlenty));
  ASSERT_TRUE(LeaveWindow(spool.path(), "a", Window(1), kPlenty));
  const std::vector<v1::CollectiveTiming> timings = spool.Take();
  ASSERT_THAT(timings, SizeIs(3));
  EXPECT_EQ(timings[2].message_size_bytes(), 1025);
  EXPECT_THAT(spool.Take(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(spool.path()));
}

TEST(WindowSpool, SetsAsideWhatIsNoWindow) {
  WindowSpool spool(MakeTestFolder());
  std::ofstream(spool.path() + "/a.window.json") << "{\"rank\": ";
  std::ofstream(spool.path() + "/half.window.json.new") << "{";
  std::ofstream(spool.path() + "/notes.txt") << "?";
  ASSERT_TRUE(LeaveWindow(spool.path(), "z", Window(1), kPlenty));
  EXPECT_THAT(spool.Take(), SizeIs(1));
  EXPECT_EQ(spool.refused_count(), 1);
  EXPECT_TRUE(std::filesystem::exists(spool.path() + "/a.window.json.refused"));
  EXPECT_TRUE(std::filesystem::exists(spool.path() + "/notes.txt"));
}

TEST(WindowSpool, LeavesTheRestForTheNextTime) {
  WindowSpool spool(MakeTestFolder());
  for (int i = 0; i <= WindowSpool::kMaxFilesAtOnce; ++i) {
    ASSERT_TRUE(LeaveWindow(spool.path(), absl::StrCat("w", i), Window(1), kPlenty));
  }
  EXPECT_THAT(spool.Take(), SizeIs(WindowSpool::kMaxFilesAtOnce));
  EXPECT_TRUE(spool.has_more());
  EXPECT_THAT(spool.Take(), SizeIs(1));
  EXPECT_FALSE(spool.has_more());
}

TEST(WindowSpool, PassesOverWhatItCannotTakeAway) {
  WindowSpool spool(MakeTestFolder());
  std::ofstream(spool.path() + "/a.window.json") << "{";
  // No file takes the place of a folder.
  std::filesystem::create_directories(spool.path() + "/a.window.json.refused/full");
  ASSERT_TRUE(LeaveWindow(spool.path(), "z", Window(1), kPlenty));
  EXPECT_THAT(spool.Take(), SizeIs(1));
  EXPECT_THAT(spool.Take(), IsEmpty());
  EXPECT_FALSE(spool.has_more());
  EXPECT_EQ(spool.refused_count(), 0);
}

TEST(WindowSpool, OfNoFolderIsEmpty) {
  WindowSpool spool(MakeTestFolder() + "/missing");
  EXPECT_THAT(spool.Take(), IsEmpty());
  EXPECT_FALSE(LeaveWindow(spool.path(), "a", Window(1), kPlenty));
}

}  // namespace
}  // namespace parplan
