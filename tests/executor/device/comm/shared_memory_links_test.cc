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

// Another descriptor of an open file.
FileDescriptor CopyOf(int descriptor) {
  return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

TEST(SharedSegment, ARankOpensWhatAnotherMade) {
  ASSERT_OK_AND_ASSIGN(const auto made, SharedSegment::Make(kGroupSize));
  ASSERT_OK_AND_ASSIGN(const auto opened,
                       SharedSegment::Open(CopyOf(made->descriptor()), kGroupSize));
  std::strcpy(made->data(), "written");
  EXPECT_STREQ(opened->data(), "written");
}

TEST(SharedSegment, AFileWithANameIsRefusedAndNotChanged) {
  ASSERT_OK_AND_ASSIGN(const auto made, SharedSegment::Make(kGroupSize));
  const std::string path = absl::StrCat(MakeTestFolder(), "/file");
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), SizeOf(made->descriptor())), 0);
  EXPECT_THAT(SharedSegment::Open(CopyOf(file.get()), kGroupSize).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("file with a name")));
  std::array<char, 4096> bytes = {};
  ASSERT_EQ(::read(file.get(), bytes.data(), bytes.size()), 4096);
  EXPECT_THAT(bytes, testing::Each(0));
  // One that was removed has no seals.
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_THAT(SharedSegment::Open(CopyOf(file.get()), kGroupSize).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("not sealed")));
}

TEST(SharedSegment, WhatIsNoMemoryIsRefused) {
  int pipe_ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  const FileDescriptor ends[] = {FileDescriptor(pipe_ends[0]), FileDescriptor(pipe_ends[1])};
  const FileDescriptor device(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const FileDescriptor folder(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const int other : {ends[0].get(), ends[1].get(), device.get(), folder.get(), -1}) {
    EXPECT_THAT(SharedSegment::Open(CopyOf(other), kGroupSize).status(),
                StatusIs(absl::StatusCode::kPermissionDenied));
  }
}

TEST(SharedSegment, MemoryThatIsNotSealedOrHasAnotherSizeIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto made, SharedSegment::Make(kGroupSize));
  const int64_t size = SizeOf(made->descriptor());
  // Whoever may change its size ends the ranks that use it.
  EXPECT_NE(::ftruncate(made->descriptor(), 0), 0);
  for (const int seals : {0, F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_SEAL}) {
    EXPECT_THAT(SharedSegment::Open(MemoryOf(size, seals), kGroupSize).status(),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("not sealed")));
  }
  for (const int64_t other : {int64_t{0}, size - 1, size + 4096}) {
    EXPECT_THAT(SharedSegment::Open(MemoryOf(other, kAllSeals), kGroupSize).status(),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("another size")));
  }
  // Sealed against what the ranks have to do.
  EXPECT_THAT(SharedSegment::Open(MemoryOf(size, kAllSeals | F_SEAL_WRITE), kGroupSize).status(),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_OK(SharedSegment::Open(MemoryOf(size, kAllSeals), kGroupSize));
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
