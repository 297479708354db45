#include "profiler-agent/measure/temporary_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

TEST(WriteTemporaryFile, HoldsTheContentForThisUserAlone) {
  const std::string content("plan\0of bytes", 13);
  ASSERT_OK_AND_ASSIGN(const std::string path, WriteTemporaryFile("parplan-test", content));
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()),
            content);
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ASSERT_OK_AND_ASSIGN(const std::string other, WriteTemporaryFile("parplan-test", content));
  EXPECT_NE(other, path);
  ::unlink(path.c_str());
  ::unlink(other.c_str());
}

// Nothing is written to the current folder in its place.
TEST(WriteTemporaryFile, NeedsAFolder) {
  const char* const before = std::getenv("TMPDIR");
  const std::string folder = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/nowhere", 1);
  const absl::StatusOr<std::string> path = WriteTemporaryFile("parplan-test-nowhere", "");
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", folder.c_str(), 1);
  EXPECT_THAT(path, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("set TMPDIR")));
  for (const auto& entry : std::filesystem::directory_iterator(".")) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr("parplan-test-nowhere")));
  }
}

}  // namespace
}  // namespace parplan
