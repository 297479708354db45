#include "base/system/machine_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "tests/support/test_folder.h"

namespace parplan {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(ControlGroupBytes, IsTheSmallestLimitOfTheGroupAndThoseAroundIt) {
  const std::string root = MakeTestFolder();
  EXPECT_EQ(ControlGroupBytes("0::/pods/one\n", root), kNoLimit);
  Write(root + "/pods/one/memory.max", "max\n");
  EXPECT_EQ(ControlGroupBytes("0::/pods/one\n", root), kNoLimit);
  Write(root + "/pods/memory.max", "2147483648\n");
  EXPECT_EQ(ControlGroupBytes("0::/pods/one\n", root), int64_t{2} << 30);
  Write(root + "/pods/one/memory.max", "1073741824\n");
  EXPECT_EQ(ControlGroupBytes("0::/pods/one\n", root), int64_t{1} << 30);
  // Its own limit says nothing of a group beside it.
  EXPECT_EQ(ControlGroupBytes("0::/pods/two\n", root), int64_t{2} << 30);
}

TEST(ControlGroupBytes, ReadsVersion1AsWell) {
  const std::string root = MakeTestFolder();
  Write(root + "/memory/a:b/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(ControlGroupBytes("9:name=systemd:/\n4:cpu,memory:/a:b\n0::/\n", root), 4096);
  EXPECT_EQ(ControlGroupBytes("9:name=systemd:/\n4:cpu:/a:b\n", root), kNoLimit);
  EXPECT_EQ(ControlGroupBytes("no group\n", root), kNoLimit);
}

TEST(UsableMemoryBytes, IsSomeAndNotMoreThanAMachineHas) {
  EXPECT_GT(UsableMemoryBytes(), int64_t{1} << 20);
  EXPECT_LT(UsableMemoryBytes(), int64_t{1} << 50);
}

TEST(MachineMemory, AProcessHasWhatItTouches) {
  const int64_t before = ResidentBytes();
  const std::string touched(size_t{64} << 20, 'x');
  EXPECT_GE(ResidentBytes(), before + (int64_t{48} << 20));
  EXPECT_EQ(touched.back(), 'x');
}

}  // namespace
}  // namespace parplan
