#include "clients/slurm/deadline_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan::slurm {
namespace {

constexpr absl::Duration kNever = absl::Minutes(10);

TEST(RunWithin, GivesWhatTheWorkSays) {
  ASSERT_OK_AND_ASSIGN(const std::optional<WorkResult> result, RunWithin(kNever, [] {
                         return WorkResult{7, "two words\nand a line"};
                       }));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->code, 7);
  EXPECT_EQ(result->text, "two words\nand a line");
}

TEST(RunWithin, WorkThatDiesIsAnError) {
  EXPECT_EQ(RunWithin(kNever, []() -> WorkResult { std::abort(); }).status().code(),
            absl::StatusCode::kInternal);
}

std::vector<pid_t> ReadIds(const std::string& path) {
  std::ifstream file(path);
  return {std::istream_iterator<pid_t>(file), {}};
}

// The work waits for ever, and so does what it has started; neither is left behind.
TEST(RunWithin, EndsWorkThatHangsWithAllItHasStarted) {
  const std::string path = MakeTestFolder() + "/pids";
  std::vector<pid_t> ids;
  // Both must have begun by then, on a machine that is busy too.
  for (absl::Duration deadline = absl::Milliseconds(500); ids.size() < 2; deadline *= 2) {
    std::filesystem::remove(path);
    ASSERT_OK_AND_ASSIGN(
        const std::optional<WorkResult> result, RunWithin(deadline, [&]() -> WorkResult {
          std::ofstream(path) << ::getpid();
          (void)OutputOf({"/bin/sh", "-c", "echo \" $$\" >>\"$0\"; exec sleep 100000", path});
          return {};
        }));
    ASSERT_FALSE(result.has_value());
    ids = ReadIds(path);
  }
  ASSERT_EQ(ids.size(), 2);
  for (const pid_t id : ids) {
    // Who has no parent left is taken away by another soon.
    while (::kill(id, 0) == 0 && std::filesystem::exists("/proc/" + std::to_string(id) + "/exe")) {
      absl::SleepFor(absl::Milliseconds(10));
    }
  }
}

TEST(OutputOf, GivesOutputAndReportsFailure) {
  ASSERT_OK_AND_ASSIGN(const std::string text, OutputOf({"/bin/echo", "a", "b c"}));
  EXPECT_EQ(text, "a b c\n");
  EXPECT_EQ(OutputOf({"/bin/false"}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(OutputOf({"/none/scontrol"}).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace parplan::slurm
