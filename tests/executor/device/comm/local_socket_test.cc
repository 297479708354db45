// Tests what a process that hands over files, or takes them, accepts from the other side.

#include "executor/device/comm/local_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/system/steady_clock.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(3);

// The two ends of a connection.
std::pair<Socket, Socket> Pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

FileDescriptor Memory() { return FileDescriptor(::memfd_create("test", MFD_CLOEXEC)); }

// Returns what the open files of this process are, in order of their numbers.
std::vector<std::string> OpenFiles() {
  std::vector<std::string> files;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    std::error_code error;
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (!error) files.push_back(path + " " + target.string());
  }
  return files;
}

// Sends a byte with open files in a control message each.
void SendFiles(const Socket& socket, const std::vector<std::vector<int>>& messages,
               char mark = 'd') {
  std::vector<char> control;
  for (const std::vector<int>& files : messages) {
    std::vector<char> part(CMSG_SPACE(files.size() * sizeof(int)));
    auto* const header = reinterpret_cast<cmsghdr*>(part.data());
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), files.data(), files.size() * sizeof(int));
    control.insert(control.end(), part.begin(), part.end());
  }
  iovec data = {.iov_base = &mark, .iov_len = 1};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.empty() ? nullptr : control.data();
  message.msg_controllen = control.size();
  ASSERT_EQ(::sendmsg(socket.descriptor(), &message, MSG_NOSIGNAL), 1);
}

TEST(LocalSocket, AFileIsHandedOver) {
  ASSERT_OK_AND_ASSIGN(const LocalListener listener, LocalListener::Open());
  EXPECT_THAT(listener.Accept().status(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  ASSERT_OK_AND_ASSIGN(const Socket ours, ConnectToLocal(listener.name(), SteadyNow() + kPatience));
  ASSERT_OK_AND_ASSIGN(const Socket theirs, listener.Accept());
  const FileDescriptor memory = Memory();
  ASSERT_EQ(::write(memory.get(), "text", 4), 4);
  // Bytes that were written before arrive without the file.
  ASSERT_OK(theirs.WriteAll("before", SteadyNow() + kPatience));
  ASSERT_OK(SendDescriptor(theirs, memory.get(), SteadyNow() + kPatience));
  std::string before(6, ' ');
  ASSERT_OK(ours.ReadAll(before.data(), 6, SteadyNow() + kPatience));
  ASSERT_OK_AND_ASSIGN(const FileDescriptor taken,
                       ReceiveDescriptor(ours, SteadyNow() + kPatience));
  std::array<char, 4> bytes = {};
  EXPECT_EQ(::pread(taken.get(), bytes.data(), 4, 0), 4);
  EXPECT_EQ(std::string(bytes.data(), 4), "text");
  // A program that this process starts does not get it.
  EXPECT_EQ(::fcntl(taken.get(), F_GETFD), FD_CLOEXEC);
}

TEST(LocalSocket, AnythingButOneFileIsRefusedAndNothingStaysOpen) {
  const FileDescriptor first = Memory();
  const FileDescriptor second = Memory();
  const int one = first.get();
  const int two = second.get();
  const auto refused = [](const std::vector<std::vector<int>>& messages, char mark) {
    const auto [sends, receives] = Pair();
    SendFiles(sends, messages, mark);
    const std::vector<std::string> before = OpenFiles();
    EXPECT_THAT(ReceiveDescriptor(receives, SteadyNow() + kPatience).status(),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("one file")));
    EXPECT_EQ(OpenFiles(), before);
  };
  refused({}, 'd');
  refused({{one}}, 'x');
  refused({{one, two}}, 'd');
  // More than there is room for: the kernel says that it cut them off.
  refused({{one, two, one}}, 'd');
  refused({std::vector<int>(253, one)}, 'd');
  refused({{one}, {two}}, 'd');
}

TEST(LocalSocket, FilesBesideOtherBytesAreClosed) {
  const FileDescriptor memory = Memory();
  const auto [sends, receives] = Pair();
  SendFiles(sends, {{memory.get()}});
  const std::vector<std::string> before = OpenFiles();
  char byte = 0;
  ASSERT_OK(receives.ReadAll(&byte, 1, SteadyNow() + kPatience));
  EXPECT_EQ(OpenFiles(), before);
}

// A control message of another kind.
TEST(LocalSocket, CredentialsAreNoFile) {
  const FileDescriptor memory = Memory();
  const auto [sends, receives] = Pair();
  const int on = 1;
  ASSERT_EQ(::setsockopt(receives.descriptor(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
  ASSERT_OK(SendDescriptor(sends, memory.get(), SteadyNow() + kPatience));
  const std::vector<std::string> before = OpenFiles();
  EXPECT_THAT(ReceiveDescriptor(receives, SteadyNow() + kPatience).status(),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(OpenFiles(), before);
}

TEST(LocalSocket, AnEndAndSilenceAreErrors) {
  auto [sends, receives] = Pair();
  EXPECT_THAT(ReceiveDescriptor(receives, SteadyNow() + absl::Milliseconds(5)).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  sends.Close();
  EXPECT_THAT(ReceiveDescriptor(receives, SteadyNow() + kPatience).status(),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(SendDescriptor(receives, 0, SteadyNow() + kPatience),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(ConnectToLocal("", SteadyNow()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ConnectToLocal(std::string(200, 'n'), SteadyNow()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ConnectToLocal("nobody listens here", SteadyNow() + kPatience).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("@nobody")));
}

// A process of another user, at either end.
TEST(LocalSocket, AnotherUserIsRefused) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer cannot follow a process that forks among threads";
#endif
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kNobody = 65534;
  ASSERT_OK_AND_ASSIGN(const LocalListener listener, LocalListener::Open());
  int ready[2] = {-1, -1};
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(ready[0]);
    if (::setuid(kNobody) != 0) ::_exit(2);
    const absl::StatusOr<LocalListener> impostor = LocalListener::Open();
    const absl::StatusOr<Socket> caller = ConnectToLocal(listener.name(), SteadyNow() + kPatience);
    // The listener is root's, which the caller sees as well.
    if (!impostor.ok() || !absl::IsPermissionDenied(caller.status())) ::_exit(3);
    const std::string& name = impostor->name();
    if (::write(ready[1], name.data(), name.size()) <= 0) ::_exit(4);
    ::pause();
    ::_exit(0);
  }
  ::close(ready[1]);
  std::array<char, 64> name = {};
  const ssize_t size = ::read(ready[0], name.data(), name.size());
  ::close(ready[0]);
  EXPECT_GT(size, 0) << "the other user was not refused";
  if (size > 0) {
    EXPECT_THAT(ConnectToLocal(std::string(name.data(), size), SteadyNow() + kPatience).status(),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("another user")));
    EXPECT_THAT(listener.Accept().status(),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("another user")));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace parplan
