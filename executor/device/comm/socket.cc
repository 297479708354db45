#include "executor/device/comm/socket.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/tls_session.h"

namespace parplan {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

absl::StatusOr<Addresses> Resolve(const std::string& host, const std::string& port, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve ", host, ": ", ::gai_strerror(error)));
  }
  return Addresses(found, &::freeaddrinfo);
}

// Sends small messages at once, and finds a machine that is gone without closing its connections:
// after 10 s of silence the kernel probes it every 5 s and ends the connection when four probes
// stay unanswered, so a rank that waits to receive learns it within half a minute. A limit on
// unacknowledged data (TCP_USER_TIMEOUT) would end jobs whose ranks compute for longer than that
// and read nothing meanwhile.
void SetUp(int descriptor) {
  const auto set = [descriptor](int level, int name, int value) {
    ::setsockopt(descriptor, level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// Waits for `events`. False at the deadline.
absl::StatusOr<bool> Await(int descriptor, short events, absl::Duration deadline) {
  while (true) {
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    pollfd interest = {.fd = descriptor, .events = events, .revents = 0};
    // ppoll takes no infinite time, so an infinite deadline is several waits.
    const timespec timeout = absl::ToTimespec(std::min(left, absl::Hours(1)));
    const int count = ::ppoll(&interest, 1, &timeout, nullptr);
    if (count > 0) return true;
    if (count < 0 && errno != EINTR)
      return absl::UnavailableError(DescribeErrno(errno, "cannot wait for the other side"));
  }
}

}  // namespace

Socket::Socket() = default;
Socket::Socket(int descriptor) : descriptor_(descriptor) {}
Socket::Socket(Socket&& other) noexcept
    : descriptor_(other.Release()), tls_(std::move(other.tls_)) {}
Socket::~Socket() { Close(); }

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    Close();
    descriptor_ = other.Release();
    tls_ = std::move(other.tls_);
  }
  return *this;
}

int Socket::Release() { return std::exchange(descriptor_, -1); }

void Socket::Close() {
  tls_.reset();
  if (descriptor_ >= 0) ::close(Release());
}

void Socket::Shutdown() {
  if (descriptor_ >= 0) ::shutdown(descriptor_, SHUT_RDWR);
}

absl::StatusOr<Socket> Socket::Connect(const std::string& address, absl::Duration deadline,
                                       const std::function<void(const absl::Status&)>& on_failure) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is not an address: give HOST:PORT"));
  }
  const absl::string_view host =
      absl::StripSuffix(absl::StripPrefix(absl::string_view(address).substr(0, colon), "["), "]");
  const auto resolve = [&]() -> absl::StatusOr<std::vector<SocketAddress>> {
    PARPLAN_ASSIGN_OR_RETURN(const Addresses found,
                             Resolve(std::string(host), address.substr(colon + 1), /*flags=*/0));
    std::vector<SocketAddress> addresses;
    for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
      addresses.emplace_back().length = each->ai_addrlen;
      std::memcpy(&addresses.back().address, each->ai_addr, each->ai_addrlen);
    }
    return addresses;
  };
  return ConnectToAny(resolve, address, deadline, /*intervals=*/{}, on_failure);
}

absl::StatusOr<Socket> Socket::ConnectToAny(
    const Resolver& resolve, const std::string& name, absl::Duration deadline,
    const ConnectIntervals& intervals, const std::function<void(const absl::Status&)>& on_failure) {
  const auto failure = [&name](int error) {
    return absl::UnavailableError(DescribeErrno(error, absl::StrCat("cannot connect to ", name)));
  };
  PARPLAN_ASSIGN_OR_RETURN(std::vector<SocketAddress> addresses, resolve());
  absl::Duration next_resolution = SteadyNow() + intervals.resolve_interval;
  while (true) {
    int error = 0;
    for (const SocketAddress& each : addresses) {
      Socket socket(
          ::socket(each.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket.is_open()) {
        error = errno;
        if (on_failure) on_failure(failure(error));
        continue;
      }
      error = 0;
      if (::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&each.address),
                    each.length) != 0) {
        error = errno;
      }
      if (error == EINPROGRESS) {
        // An address may swallow all packets, and the next one be well.
        const absl::Duration end = std::min(deadline, SteadyNow() + intervals.address_patience);
        PARPLAN_ASSIGN_OR_RETURN(const bool ready, Await(socket.descriptor(), POLLOUT, end));
        socklen_t length = sizeof(error);
        ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
        if (!ready) error = ETIMEDOUT;
      }
      if (error == 0) {
        SetUp(socket.descriptor());
        return socket;
      }
      if (on_failure) on_failure(failure(error));
    }
    if (SteadyNow() + kSocketPause >= deadline) {
      return failure(error);
    }
    ::usleep(static_cast<useconds_t>(absl::ToInt64Microseconds(kSocketPause)));
    if (SteadyNow() < next_resolution) continue;
    absl::StatusOr<std::vector<SocketAddress>> found = resolve();
    next_resolution = SteadyNow() + intervals.resolve_interval;
    if (found.ok()) {
      addresses = *std::move(found);
    } else if (on_failure) {
      on_failure(found.status());
    }
  }
}

absl::Status Socket::StartTls(TlsSide side, absl::string_view key, std::string arrived) {
  PARPLAN_ASSIGN_OR_RETURN(tls_, TlsSession::Start(side, descriptor_, key, std::move(arrived)));
  return absl::OkStatus();
}

absl::StatusOr<bool> Socket::ContinueTls() const { return tls_->Handshake(); }

bool Socket::has_pending() const { return tls_ != nullptr && tls_->has_pending(); }

absl::Status Socket::FinishTls(TlsSide side, absl::string_view key, absl::Duration deadline) {
  PARPLAN_RETURN_IF_ERROR(StartTls(side, key));
  while (true) {
    PARPLAN_ASSIGN_OR_RETURN(const bool is_done, ContinueTls());
    if (is_done) return absl::OkStatus();
    PARPLAN_ASSIGN_OR_RETURN(const bool ready, Await(descriptor_, POLLIN, deadline));
    if (!ready) return absl::DeadlineExceededError("the other side says nothing");
  }
}

absl::StatusOr<int64_t> Socket::Send(absl::string_view data) const {
  if (tls_ != nullptr) return tls_->Send(data);
  const ssize_t count = ::send(descriptor_, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count >= 0) return count;
  if (WouldBlock(errno)) return 0;
  return absl::UnavailableError(DescribeErrno(errno, "the other side is gone"));
}

absl::StatusOr<int64_t> Socket::Receive(char* data, int64_t size, int* error) const {
  if (error != nullptr) *error = 0;
  if (tls_ != nullptr) {
    absl::StatusOr<int64_t> count = tls_->Receive(data, size);
    if (!count.ok() && error != nullptr) *error = tls_->error_number();
    return count;
  }
  const ssize_t count = ::recv(descriptor_, data, size, MSG_DONTWAIT);
  if (count > 0) return count;
  if (count == 0) return absl::UnavailableError("the other side closed the connection");
  if (WouldBlock(errno)) return 0;
  if (error != nullptr) *error = errno;
  return absl::UnavailableError(DescribeErrno(errno, "the other side is gone"));
}

absl::Status Socket::WriteAll(absl::string_view data, absl::Duration deadline) const {
  while (!data.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(const int64_t count, Send(data));
    data.remove_prefix(count);
    if (count > 0) continue;
    PARPLAN_ASSIGN_OR_RETURN(const bool ready, Await(descriptor_, POLLOUT, deadline));
    if (ready) continue;
    // Part of a record may be sent, and other bytes cannot take the place of its rest.
    if (tls_ != nullptr) tls_->Abandon();
    return absl::DeadlineExceededError("the other side takes nothing");
  }
  return absl::OkStatus();
}

absl::Status Socket::ReadAll(char* data, int64_t size, absl::Duration deadline) const {
  while (size > 0) {
    PARPLAN_ASSIGN_OR_RETURN(const int64_t count, Receive(data, size));
    data += count;
    size -= count;
    if (count > 0) continue;
    PARPLAN_ASSIGN_OR_RETURN(const bool ready, Await(descriptor_, POLLIN, deadline));
    if (!ready) return absl::DeadlineExceededError("the other side says nothing");
  }
  return absl::OkStatus();
}

absl::StatusOr<Listener> Listener::Open(const std::string& host, int port) {
  PARPLAN_ASSIGN_OR_RETURN(const Addresses addresses,
                           Resolve(host, absl::StrCat(port), AI_PASSIVE));
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) continue;
    const int on = 1;
    ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(socket.descriptor(), each->ai_addr, each->ai_addrlen) != 0 ||
        ::listen(socket.descriptor(), SOMAXCONN) != 0) {
      continue;
    }
    sockaddr_storage bound = {};
    socklen_t length = sizeof(bound);
    ::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&bound), &length);
    const int chosen =
        ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
    return Listener(std::move(socket), chosen);
  }
  return absl::UnavailableError(
      DescribeErrno(errno, absl::StrCat("cannot listen on ", host, ":", port)));
}

absl::StatusOr<Socket> Listener::Accept(absl::Duration deadline) const {
  PARPLAN_ASSIGN_OR_RETURN(const bool ready, Await(socket_.descriptor(), POLLIN, deadline));
  if (!ready) return absl::DeadlineExceededError("no process connected");
  Socket socket(::accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.is_open()) {
    const int error = errno;
    const std::string what = DescribeErrno(error, "cannot accept a connection");
    const bool is_exhausted =
        error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    return is_exhausted ? absl::ResourceExhaustedError(what) : absl::UnavailableError(what);
  }
  SetUp(socket.descriptor());
  return socket;
}

}  // namespace parplan
