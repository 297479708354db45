#include "base/system/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

TEST(WriteOutputFile, WritesIntoAPipeAndLeavesIt) {
  const std::string path = MakeTestFolder() + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const FileDescriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader.is_open());
  EXPECT_OK(WriteOutputFile(path, "9477\n"));
  EXPECT_THAT(ReadDescriptor(reader.get(), "pipe", 100), IsOkAndHolds("9477\n"));
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

TEST(WriteOutputFile, ReplacesAFile) {
  const std::string path = MakeTestFolder() + "/file";
  EXPECT_OK(WriteOutputFile(path, "first and longer"));
  EXPECT_OK(WriteOutputFile(path, "second"));
  EXPECT_THAT(ReadFile(path, {.max_bytes = 100}), IsOkAndHolds("second"));
  EXPECT_FALSE(WriteOutputFile(std::filesystem::path(path).parent_path(), "text").ok());
}

}  // namespace
}  // namespace parplan
