// The library of NCCL: found when it is needed, and one line where it is not there.

#include "executor/device/cuda/nccl_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace parplan::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kFolder[] = PARPLAN_FAKE_NCCL_FOLDER;

int VersionOf(const NcclLibrary& library) {
  int version = 0;
  EXPECT_EQ(library.ncclGetVersion(&version), ncclSuccess);
  return version;
}

TEST(NcclLibrary, OneLineSaysThatItIsMissing) {
  EXPECT_THAT(LoadNccl("libnccl-of-nobody.so.2").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("libnccl-of-nobody.so.2 cannot be loaded"),
                             HasSubstr("No such file"), HasSubstr("install it"),
                             HasSubstr("LD_LIBRARY_PATH"), Not(HasSubstr("\n")))));
}

TEST(NcclLibrary, AnOldOneLacksAFunction) {
  const std::string file = absl::StrCat(kFolder, "/libold.so");
  EXPECT_THAT(LoadNccl(file).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("libold.so has no ncclCommSplit; "),
                             HasSubstr("NCCL 2.18 or later"), Not(HasSubstr("\n")))));
}

// One that came from elsewhere, as with PyTorch, is found by its name alone and is not loaded
// again.
TEST(NcclLibrary, ThatOfTheProcessServes) {
  const std::string file = absl::StrCat(kFolder, "/libfound.so");
  void* const before = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(before, nullptr) << ::dlerror();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] { EXPECT_OK(OpenNccl()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reinterpret_cast<void*>(Nccl().ncclGetVersion), ::dlsym(before, "ncclGetVersion"));
  EXPECT_EQ(VersionOf(Nccl()), 21805);
  ASSERT_OK_AND_ASSIGN(const NcclLibrary again, LoadNccl("libnccl.so.2"));
  EXPECT_EQ(VersionOf(again), 21805);
}

}  // namespace
}  // namespace parplan::cuda
