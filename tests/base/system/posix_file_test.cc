#include "base/system/posix_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/file_size_limit.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kLimit = 1000;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

int FileCount(const std::string& folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

mode_t ModeOf(const std::string& path) {
  struct stat facts = {};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0);
  return facts.st_mode & 07777;
}

// Sets the umask as long as it lives.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }

 private:
  const mode_t before_;
};

TEST(ErrnoToStatus, NamesOperationPathCauseAndWhatToDo) {
  EXPECT_EQ(ErrnoToStatus(ENOENT, "open", "/a/b"),
            absl::NotFoundError("cannot open /a/b: No such file or directory; check the path"));
  EXPECT_EQ(ErrnoToStatus(ENOSPC, "write", "/a"),
            absl::ResourceExhaustedError(
                "cannot write /a: No space left on device; make room on this disk"));
}

TEST(ErrnoToStatus, GivesTheCanonicalCode) {
  const auto code = [](int error) { return ErrnoToStatus(error, "open", "x").code(); };
  EXPECT_EQ(code(EACCES), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(EROFS), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(EMFILE), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(ENOTDIR), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(EISDIR), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(ELOOP), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(EIO), absl::StatusCode::kUnavailable);
}

TEST(DescribeErrno, GivesNoAdviceWhereTheErrorAllowsNone) {
  EXPECT_EQ(DescribeErrno(EPIPE, "the other side is gone"), "the other side is gone: Broken pipe");
}

TEST(FileDescriptor, HasOneOwner) {
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe(ends.data()), 0);
  FileDescriptor in(ends[0]);
  FileDescriptor out(ends[1]);
  FileDescriptor moved(std::move(out));
  EXPECT_FALSE(out.is_open());  // NOLINT: what a move leaves is part of the contract.
  moved = std::move(in);
  EXPECT_EQ(moved.get(), ends[0]);
  EXPECT_EQ(::fcntl(ends[1], F_GETFD), -1) << "the one that was replaced is closed";
  EXPECT_EQ(moved.Close(), 0);
  EXPECT_EQ(moved.Close(), 0) << "twice does nothing";
}

TEST(AtomicWrite, ReplacesTheWholeFileAndLeavesNothingBeside) {
  const std::string folder = MakeTestFolder();
  for (const std::string& contents : {std::string("a longer first content"), std::string("second"),
                                      std::string(), std::string("zero \0 byte", 11)}) {
    ASSERT_OK(AtomicWrite(folder + "/f", contents, {.syncs_file = true, .syncs_folder = true}));
    EXPECT_EQ(Contents(folder + "/f"), contents);
    EXPECT_EQ(FileCount(folder), 1);
  }
}

TEST(AtomicWrite, KeepsTheOldFileWhenTheDiskIsFull) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK(AtomicWrite(folder + "/f", "old"));
  {
    const FileSizeLimit limit(200);
    EXPECT_THAT(AtomicWrite(folder + "/f", std::string(1000, 'x')),
                StatusIs(absl::StatusCode::kOutOfRange,
                         AllOf(HasSubstr(folder + "/f"), HasSubstr("ulimit -f"))));
    EXPECT_OK(AtomicWrite(folder + "/g", "small"));
  }
  EXPECT_EQ(Contents(folder + "/f"), "old");
  EXPECT_EQ(FileCount(folder), 2);
}

TEST(AtomicWrite, GivesTheModeThatIsAskedFor) {
  const std::string folder = MakeTestFolder();
  const Umask mask(027);
  ASSERT_OK(AtomicWrite(folder + "/masked", "x", {.mode = 0666}));
  EXPECT_EQ(ModeOf(folder + "/masked"), 0640);
  ASSERT_OK(AtomicWrite(folder + "/exact", "x", {.mode = 0644, .ignores_umask = true}));
  EXPECT_EQ(ModeOf(folder + "/exact"), 0644);
  ASSERT_OK(AtomicWrite(folder + "/exact", "x", {.mode = 0600, .ignores_umask = true}));
  EXPECT_EQ(ModeOf(folder + "/exact"), 0600) << "the mode of the old file does not matter";
}

TEST(AtomicWrite, FollowsNoLinkThatStandsWhereItStages) {
  const std::string folder = MakeTestFolder();
  std::ofstream(folder + "/target") << "kept";
  std::filesystem::create_symlink("target", folder + "/f.part");
  ASSERT_OK(AtomicWrite(folder + "/f", "new", {.staged_suffix = ".part"}));
  EXPECT_EQ(Contents(folder + "/f"), "new");
  EXPECT_EQ(Contents(folder + "/target"), "kept");
  EXPECT_EQ(FileCount(folder), 2);
}

TEST(AtomicWrite, ThatFailsLeavesNothing) {
  const std::string folder = MakeTestFolder();
  EXPECT_THAT(AtomicWrite(folder + "/none/f", "x"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder + "/none/f")));
  std::filesystem::create_directory(folder + "/folder");
  EXPECT_THAT(AtomicWrite(folder + "/folder", "x"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("directory")));
  EXPECT_EQ(FileCount(folder), 1);
}

TEST(AtomicWrite, GivesWhatRootWritesToTheOwnerOfTheFolder) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const std::string folder = MakeTestFolder();
  ASSERT_EQ(::chown(folder.c_str(), 54321, 54322), 0);
  ASSERT_OK(AtomicWrite(folder + "/given", "x", {.gives_to_folder_owner = true}));
  ASSERT_OK(AtomicWrite(folder + "/kept", "x"));
  struct stat facts = {};
  ASSERT_EQ(::stat((folder + "/given").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, 54321U);
  EXPECT_EQ(facts.st_gid, 54322U);
  ASSERT_EQ(::stat((folder + "/kept").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, 0U);
}

TEST(FolderOf, GivesWhatStandsBeforeTheLastSlash) {
  EXPECT_EQ(FolderOf("/a/b"), "/a");
  EXPECT_EQ(FolderOf("/b"), "/");
  EXPECT_EQ(FolderOf("b"), ".");
}

TEST(ReadFile, GivesAllBytesUpToTheLimitAndNamesALargerFile) {
  const std::string path = MakeTestFolder() + "/f";
  for (const size_t size : {size_t{0}, size_t{1}, kLimit - 1, kLimit}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7);
    ASSERT_OK(AtomicWrite(path, bytes));
    EXPECT_THAT(ReadFile(path, {.max_bytes = kLimit}), IsOkAndHolds(bytes));
  }
  ASSERT_OK(AtomicWrite(path, std::string(kLimit + 1, 'x')));
  EXPECT_THAT(ReadFile(path, {.max_bytes = kLimit}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr(path), HasSubstr("more than 1000 bytes"))));
}

TEST(ReadFile, NamesWhatCannotBeRead) {
  const std::string folder = MakeTestFolder();
  EXPECT_THAT(ReadFile(folder + "/none", {.max_bytes = kLimit}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder + "/none")));
  for (const bool takes_any_kind : {false, true}) {
    EXPECT_THAT(ReadFile(folder, {.max_bytes = kLimit, .takes_any_kind = takes_any_kind}),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr(folder), HasSubstr("directory"))));
  }
}

TEST(ReadFile, RefusesAPipeWithoutWaitingForAWriter) {
  const std::string path = MakeTestFolder() + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(ReadFile(path, {.max_bytes = kLimit}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no regular file")));
}

TEST(ReadFile, TakesDevicesWhereAskedToAndStopsAtTheLimit) {
  EXPECT_THAT(ReadFile("/dev/null", {.max_bytes = kLimit}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(ReadFile("/dev/null", {.max_bytes = kLimit, .takes_any_kind = true}),
              IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(ReadFile("/dev/zero", {.max_bytes = kLimit, .takes_any_kind = true}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("/dev/zero")));
}

TEST(ReadFile, TakesStandardInputOnlyWhereAskedTo) {
  EXPECT_THAT(ReadFile("-", {.max_bytes = kLimit}), StatusIs(absl::StatusCode::kNotFound));
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(WriteAll(ends[1], "from a pipe"), 0);
  ::close(ends[1]);
  const int before = ::dup(STDIN_FILENO);
  ASSERT_GE(::dup2(ends[0], STDIN_FILENO), 0);
  const auto text = ReadFile("-", {.max_bytes = kLimit, .takes_standard_input = true});
  ::dup2(before, STDIN_FILENO);
  ::close(before);
  ::close(ends[0]);
  EXPECT_THAT(text, IsOkAndHolds("from a pipe"));
}

TEST(ReadDescriptor, ReadsAPipeThatIsLongerThanItsFirstRead) {
  const std::string path = MakeTestFolder() + "/f";
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_GE(::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20), 1 << 20);
  const std::string bytes(200'000, 'x');
  ASSERT_EQ(WriteAll(ends[1], bytes), 0);
  ::close(ends[1]);
  const FileDescriptor in(ends[0]);
  const auto text = ReadDescriptor(in.get(), "a pipe", size_t{1} << 20);
  ASSERT_OK(text);
  EXPECT_TRUE(*text == bytes);
}

}  // namespace
}  // namespace parplan
