#include "executor/windows/window_leaver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "profiler-agent/drift/window_spool.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::MeasuredWindow WindowOf(int64_t message_size) {
  v1::MeasuredWindow window;
  window.set_rank(1);
  window.set_step_count(10);
  window.add_phase_durations()->set_phase(v1::PHASE_FORWARD);
  window.add_memory_items()->set_kind(v1::MEMORY_ITEM_KIND_PARAMETERS);
  v1::CollectiveTiming& timing = *window.add_collective_timings();
  timing.set_collective(v1::COLLECTIVE_ALL_REDUCE);
  timing.set_participant_count(2);
  timing.set_rank_stride(1);
  timing.set_message_size_bytes(message_size);
  timing.mutable_median_duration()->set_nanos(5000);
  timing.set_sample_count(40);
  return window;
}

int FileCount(const std::string& folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder),
                                        std::filesystem::directory_iterator()));
}

TEST(WindowLeaver, LeavesCollectivesAsTheAgentTakesThem) {
  const std::string folder = MakeTestFolder();
  WindowLeaver leaver(folder, "job");
  leaver.Add(WindowOf(4096));
  leaver.Add(WindowOf(8192));
  EXPECT_EQ(leaver.Finish(), 0);
  WindowSpool spool(folder);
  const std::vector<v1::CollectiveTiming> timings = spool.Take();
  ASSERT_THAT(timings, SizeIs(2));
  EXPECT_EQ(timings[0].message_size_bytes(), 4096);
  EXPECT_EQ(timings[1].sample_count(), 40);
  EXPECT_EQ(timings[1].median_duration().nanos(), 5000);
  EXPECT_EQ(spool.refused_count(), 0);
  EXPECT_EQ(FileCount(folder), 0);
}

TEST(WindowLeaver, LeavesNothingWhereNoCollectiveWasTimed) {
  const std::string folder = MakeTestFolder();
  {
    WindowLeaver leaver(folder, "job");
    v1::MeasuredWindow window = WindowOf(4096);
    window.clear_collective_timings();
    leaver.Add(window);
  }
  EXPECT_EQ(FileCount(folder), 0);
}

TEST(WindowLeaver, JobsOfOneNameDoNotOverwriteEachOther) {
  const std::string folder = MakeTestFolder();
  for (int job = 0; job < 3; ++job) WindowLeaver(folder, "job").Add(WindowOf(4096));
  EXPECT_THAT(WindowSpool(folder).Take(), SizeIs(3));
}

TEST(WindowLeaver, CountsWhatCannotBeLeft) {
  WindowLeaver leaver(MakeTestFolder() + "/missing", "job");
  leaver.Add(WindowOf(4096));
  leaver.Add(WindowOf(4096));
  EXPECT_EQ(leaver.Finish(), 2);
}

TEST(WindowLeaver, LeavesNoMoreFilesThanMayWait) {
  const std::string folder = MakeTestFolder();
  for (int file = 0; file < WindowLeaver::kMaxFileCount; ++file) {
    std::ofstream(absl::StrCat(folder, "/", file, ".window.json")) << "of another";
  }
  WindowLeaver leaver(folder, "job");
  leaver.Add(WindowOf(4096));
  EXPECT_EQ(leaver.Finish(), 1);
  EXPECT_EQ(FileCount(folder), WindowLeaver::kMaxFileCount);
}

}  // namespace
}  // namespace parplan
