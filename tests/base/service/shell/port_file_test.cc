#include "base/service/shell/port_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

TEST(WritePortFile, ReplacesAFileAndLeavesNothingElse) {
  const std::string folder = MakeTestFolder();
  EXPECT_OK(WritePortFile(folder + "/port", 1));
  EXPECT_OK(WritePortFile(folder + "/port", 9477));
  int port = 0;
  std::ifstream(folder + "/port") >> port;
  EXPECT_EQ(port, 9477);
  const std::filesystem::directory_iterator files(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(WritePortFile, NeedsNoFile) { EXPECT_OK(WritePortFile("", 9477)); }

TEST(WritePortFile, NamesWhatCannotBeWritten) {
  const std::string path = MakeTestFolder() + "/none/port";
  EXPECT_THAT(WritePortFile(path, 9477),
              StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr(path)));
}

}  // namespace
}  // namespace parplan
