#include "base/service/listen/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/service/listen/listen_address.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

// More than any kernel allows: it cuts this to net.core.somaxconn.
constexpr int kBacklog = 4096;

absl::Status CannotListen(absl::string_view address, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", why,
                   "; is another server there, or is the address not of this machine?"));
}

absl::Status CannotListen(absl::string_view address, int error) {
  return CannotListen(address, ErrnoText(error));
}

absl::StatusOr<FileDescriptor> ListenOn(absl::string_view address, int family,
                                        const sockaddr* where, socklen_t length) {
  FileDescriptor descriptor(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (descriptor.get() < 0) return CannotListen(address, errno);
  const int yes = 1;
  // A port whose last connections still close can be bound again; two servers on one port cannot.
  if (family != AF_UNIX &&
      setsockopt(descriptor.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0) {
    return CannotListen(address, errno);
  }
  const int both = 0;
  if (family == AF_INET6 &&
      setsockopt(descriptor.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both) != 0) {
    return CannotListen(address, errno);
  }
  if (bind(descriptor.get(), where, length) != 0 || listen(descriptor.get(), kBacklog) != 0) {
    return CannotListen(address, errno);
  }
  return descriptor;
}

// Removes a Unix socket that refuses connections: its server is gone. Does not wait for one whose
// queue is full.
void RemoveDeadSocket(const sockaddr_un& where) {
  struct stat found = {};
  if (lstat(where.sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) return;
  const FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0 &&
      errno == ECONNREFUSED) {
    unlink(where.sun_path);
  }
}

absl::StatusOr<ListeningSockets> ListenOnUnix(absl::string_view address, absl::string_view path) {
  sockaddr_un where = {};
  where.sun_family = AF_UNIX;
  if (path.size() >= sizeof where.sun_path) {
    return CannotListen(
        address, absl::StrCat("the path is longer than ", sizeof where.sun_path - 1, " bytes"));
  }
  path.copy(where.sun_path, path.size());
  RemoveDeadSocket(where);
  PARPLAN_ASSIGN_OR_RETURN(
      FileDescriptor descriptor,
      ListenOn(address, AF_UNIX, reinterpret_cast<const sockaddr*>(&where), sizeof where));
  ListeningSockets sockets;
  sockets.port = 1;
  sockets.descriptors.push_back(std::move(descriptor));
  return sockets;
}

// Returns the port that a socket was bound to.
int PortOf(const FileDescriptor& descriptor) {
  sockaddr_storage bound = {};
  socklen_t length = sizeof bound;
  if (getsockname(descriptor.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  if (bound.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(bound).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

void SetPort(sockaddr* where, int port) {
  const auto network_port = htons(static_cast<uint16_t>(port));
  if (where->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(where)->sin6_port = network_port;
  } else {
    reinterpret_cast<sockaddr_in*>(where)->sin_port = network_port;
  }
}

}  // namespace

absl::StatusOr<ListeningSockets> Listen(const std::string& address) {
  if (absl::StartsWith(address, kUnixAddressPrefix)) {
    return ListenOnUnix(address, absl::string_view(address).substr(kUnixAddressPrefix.size()));
  }
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (failure != 0) return CannotListen(address, gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  ListeningSockets sockets;
  absl::Status first_failure = absl::OkStatus();
  for (addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    if (sockets.port != 0) SetPort(each->ai_addr, sockets.port);
    absl::StatusOr<FileDescriptor> descriptor =
        ListenOn(address, each->ai_family, each->ai_addr, each->ai_addrlen);
    if (!descriptor.ok()) {
      // A machine without IPv6 has names with an address of it. One address of a name suffices.
      if (first_failure.ok()) first_failure = descriptor.status();
      continue;
    }
    if (sockets.port == 0) sockets.port = PortOf(*descriptor);
    sockets.descriptors.push_back(*std::move(descriptor));
  }
  if (!sockets.descriptors.empty()) return sockets;
  return first_failure.ok() ? CannotListen(address, "the name has no address") : first_failure;
}

ListenerAddress AddressOfListener(const FileDescriptor& listener) {
  ListenerAddress result;
  result.length = sizeof result.address;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&result.address), &result.length) !=
      0) {
    result.length = 0;
  }
  return result;
}

}  // namespace parplan
