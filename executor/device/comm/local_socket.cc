#include "executor/device/comm/local_socket.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/system/steady_clock.h"

namespace parplan {
namespace {

// The byte that a descriptor travels with.
constexpr char kMark = 'd';

// Waits for `events`; false at the deadline.
bool AwaitEvents(int descriptor, short events, absl::Duration deadline) {
  while (true) {
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    pollfd interest = {.fd = descriptor, .events = events, .revents = 0};
    const timespec timeout = absl::ToTimespec(std::min(left, absl::Hours(1)));
    if (::ppoll(&interest, 1, &timeout, nullptr) > 0) return true;
  }
}

// Returns whether a process of this user made the other end.
bool IsOfThisUser(const Socket& socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

absl::Status OfAnotherUser() {
  return absl::PermissionDeniedError("a process of another user is at the other end");
}

// Closes all descriptors in the control messages of `message`, and returns them: one that is still
// open if there is exactly one and nothing else.
FileDescriptor OnlyDescriptor(msghdr& message) {
  std::vector<FileDescriptor> arrived;
  bool has_other = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      has_other = true;
      continue;
    }
    for (size_t at = 0; at + sizeof(int) <= part->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + at, sizeof(int));
      arrived.emplace_back(descriptor);
    }
  }
  return !has_other && arrived.size() == 1 ? std::move(arrived.front()) : FileDescriptor();
}

}  // namespace

absl::StatusOr<LocalListener> LocalListener::Open(const std::string& name) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError("the name of a Unix socket is too long");
  }
  // An address without a name has the kernel choose one.
  socklen_t length = sizeof(address.sun_family);
  if (!name.empty()) {
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  if (!socket.is_open() ||
      ::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(socket.descriptor(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(
          absl::StrCat("some process listens at the Unix socket @", name));
    }
    return absl::UnavailableError(DescribeErrno(errno, "cannot listen for ranks of this machine"));
  }
  length = sizeof(address);
  if (::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return absl::UnavailableError(DescribeErrno(errno, "cannot listen for ranks of this machine"));
  }
  const size_t begin = offsetof(sockaddr_un, sun_path) + 1;
  return LocalListener(std::move(socket), std::string(address.sun_path + 1, length - begin));
}

absl::StatusOr<Socket> LocalListener::Accept() const {
  Socket socket(::accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.is_open()) {
    if (errno == EAGAIN || errno == EINTR) {
      return absl::DeadlineExceededError("no process connected");
    }
    return absl::UnavailableError(DescribeErrno(errno, "cannot accept a connection"));
  }
  if (!IsOfThisUser(socket)) return OfAnotherUser();
  return socket;
}

absl::StatusOr<Socket> ConnectToLocal(const std::string& name, absl::Duration deadline) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError("no rank of this machine listens under such a name");
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  while (!socket.is_open() ||
         ::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    const int error = errno;
    // The queue of the listener is full.
    const bool is_busy = socket.is_open() && (error == EAGAIN || error == EINTR);
    if (!is_busy || SteadyNow() >= deadline) {
      return absl::UnavailableError(
          DescribeErrno(error, absl::StrCat("cannot connect to the Unix socket @", name)));
    }
    const timespec pause = absl::ToTimespec(kSocketPause);
    ::nanosleep(&pause, nullptr);
  }
  if (!IsOfThisUser(socket)) return OfAnotherUser();
  return socket;
}

absl::Status SendDescriptor(const Socket& socket, int descriptor, absl::Duration deadline) {
  char mark = kMark;
  iovec data = {.iov_base = &mark, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &descriptor, sizeof(int));
  while (::sendmsg(socket.descriptor(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    const int error = errno;
    const bool is_full = error == EAGAIN || error == EINTR;
    if (!is_full || !AwaitEvents(socket.descriptor(), POLLOUT, deadline)) {
      return absl::UnavailableError(DescribeErrno(error, "cannot hand over a file"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> ReceiveDescriptor(const Socket& socket, absl::Duration deadline) {
  while (true) {
    char mark = 0;
    iovec data = {.iov_base = &mark, .iov_len = 1};
    // With room for two, because of the alignment; the kernel closes those beyond it.
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count = ::recvmsg(socket.descriptor(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0) {
      if (errno != EAGAIN && errno != EINTR) {
        return absl::UnavailableError(DescribeErrno(errno, "the other side is gone"));
      }
      if (!AwaitEvents(socket.descriptor(), POLLIN, deadline)) {
        return absl::DeadlineExceededError("the other side hands over nothing");
      }
      continue;
    }
    FileDescriptor file = OnlyDescriptor(message);
    if (count == 0) return absl::UnavailableError("the other side closed the connection");
    if (mark != kMark || !file.is_open()) {
      return absl::PermissionDeniedError(
          "the other side does not hand over one file; is it a rank of this job?");
    }
    return file;
  }
}

}  // namespace parplan
