#include "executor/device/backend/near_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ProcessorsOf, ReadsListsOfTheKernel) {
  EXPECT_THAT(ProcessorsOf("3\n"), ElementsAre(3));
  EXPECT_THAT(ProcessorsOf("0-2,8,10-11"), ElementsAre(0, 1, 2, 8, 10, 11));
  for (const char* const text :
       {"", "\n", "a", "3-1", "1-2-3", "-1", "1,", "2,1", "0-99999999999", "1023-1024"}) {
    EXPECT_THAT(ProcessorsOf(text), IsEmpty()) << text;
  }
}

// The processors that this thread may use.
std::vector<int> Own() {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> own;
  for (int k = 0; k < CPU_SETSIZE; ++k) {
    if (CPU_ISSET(k, &set)) own.push_back(k);
  }
  return own;
}

class BindNearDeviceTest : public testing::Test {
 protected:
  // Binds a thread near a device with this list, and returns what it may use then.
  std::vector<int> BoundTo(const std::string& list, int* count) {
    std::filesystem::create_directories(folder_ + "/0000:1b:00.0");
    std::ofstream(folder_ + "/0000:1b:00.0/local_cpulist") << list << "\n";
    std::vector<int> bound;
    std::thread([&] {
      *count = BindNearDevice("0000:1B:00.0", folder_);
      bound = Own();
    }).join();
    return bound;
  }
  const std::string folder_ = MakeTestFolder();
  const std::vector<int> own_ = Own();
};

TEST_F(BindNearDeviceTest, KeepsTheNearOnesOfItsOwn) {
  if (own_.size() < 2) GTEST_SKIP() << "this process may use one processor only";
  int count = 0;
  // A processor that this machine or this process does not have is none of its own.
  EXPECT_THAT(BoundTo(absl::StrCat(own_[1], ",1000"), &count), ElementsAre(own_[1]));
  EXPECT_EQ(count, 1);
}

TEST_F(BindNearDeviceTest, ChangesNothingWhereNoneOrAllAreNear) {
  for (const std::string& list :
       {std::string("1000"), absl::StrJoin(own_, ","), std::string(), std::string("what?")}) {
    int count = -1;
    EXPECT_EQ(BoundTo(list, &count), own_) << list;
    EXPECT_EQ(count, 0);
  }
  EXPECT_EQ(BindNearDevice("0000:ff:00.0", folder_), 0);
}

}  // namespace
}  // namespace parplan
