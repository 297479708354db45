// Tests which memory a rank refuses if the rendezvous that names it is an impostor's.

#include "executor/device/comm/shared_memory_links.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/system/posix_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::HasSubstr;

constexpr int kGroupSize = 2;
constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string PathOf(int descriptor) {
  return absl::StrCat("/proc/", ::getpid(), "/fd/", descriptor);
}

int64_t SizeOf(int descriptor) {
  struct stat info = {};
  EXPECT_EQ(::fstat(descriptor, &info), 0);
  return info.st_size;
}

// Memory without a name, of a size, with seals.
FileDescriptor MemoryOf(int64_t size, int seals) {
  FileDescriptor memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(memory.get(), size), 0);
  EXPECT_EQ(::fcntl(memory.get(), F_ADD_SEALS, seals), 0);
  return memory;
}

TEST(SharedSegment, ARankOpensWhatAnotherMade) {
  ASSERT_OK_AND_ASSIGN(const auto made, SharedSegment::Make(kGroupSize));
  ASSERT_OK_AND_ASSIGN(const auto opened, SharedSegment::Open(made->path(), kGroupSize));
  std::strcpy(made->data(), "written");
  EXPECT_STREQ(opened->data(), "written");
}

TEST(SharedSegment, AFileWithANameIsRefusedAndNotChanged) {
  const std::string path = absl::StrCat(MakeTestFolder(), "/file");
  ASSERT_OK_AND_ASSIGN(const auto made, SharedSegment::Make(kGroupSize));
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  for (const std::string& named :
       {path, PathOf(file.get()), absl::StrCat("/proc/self/fd/", 3),
        absl::StrCat("/proc/1/..", PathOf(file.get())), std::string("/dev/zero"), std::string()}) {
    EXPECT_THAT(SharedSegment::Open(named, kGroupSize).status(),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(named)));
  }
  std::array<char, 4096> bytes = {};
  ASSERT_EQ(::read(file.get(), bytes.data(), bytes.size()), 4096);
  EXPECT_THAT(bytes, testing::Each(0));
}

// An open of a pipe would wait for its other end.
TEST(SharedSegment, APipeIsRefusedWithoutWaiting) {
  const std::string path = absl::StrCat(MakeTestFolder(), "/pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const FileDescriptor pipe(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_THAT(SharedSegment::Open(PathOf(pipe.get()), kGroupSize).status(),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(SharedSegment, MemoryThatIsNotSealedOrHasAnotherSizeIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto made, SharedSegment::Make(kGroupSize));
  const FileDescriptor copy(::open(made->path().c_str(), O_RDWR | O_CLOEXEC));
  const int64_t size = SizeOf(copy.get());
  // Whoever may change its size ends the ranks that use it.
  EXPECT_NE(::ftruncate(copy.get(), 0), 0);
  const FileDescriptor loose = MemoryOf(size, F_SEAL_GROW);
  EXPECT_THAT(SharedSegment::Open(PathOf(loose.get()), kGroupSize).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("not sealed")));
  const FileDescriptor small = MemoryOf(size - 1, kAllSeals);
  EXPECT_THAT(SharedSegment::Open(PathOf(small.get()), kGroupSize).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("another size")));
  const FileDescriptor right = MemoryOf(size, kAllSeals);
  EXPECT_OK(SharedSegment::Open(PathOf(right.get()), kGroupSize));
}

// The layout is that of shared_memory_links.cc: two bells of 64 bytes, then for each ordered pair
// what was written and what was read, in 64 bytes each.
TEST(SharedMemoryLinks, CountersThatNoRankWritesAreAnError) {
  ASSERT_OK_AND_ASSIGN(auto segment, SharedSegment::Make(kGroupSize));
  char* const data = segment->data();
  SharedMemoryLinks links(std::move(segment), /*rank=*/0, kGroupSize, /*spin_count=*/0);
  EXPECT_THAT(links.link(1).Read(), IsOkAndHolds(testing::IsEmpty()));
  EXPECT_OK(links.link(1).Write("abc"));
  for (int pair = 0; pair < kGroupSize * kGroupSize; ++pair) {
    std::memset(data + 128 + 128 * pair, 0xff, sizeof(uint64_t));
  }
  EXPECT_THAT(links.link(1).Read(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("damaged")));
  EXPECT_THAT(links.link(1).Write("abc"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("damaged")));
}

}  // namespace
}  // namespace parplan
