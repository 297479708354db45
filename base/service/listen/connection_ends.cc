#include "base/service/listen/connection_ends.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace parplan {

ConnectionEnds EndsOf(int connection) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  if (address.ss_family == AF_UNIX) {
    ucred credentials = {};
    length = sizeof credentials;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return {};
    // No other process has this number while this one lives.
    const bool is_own = credentials.pid == getpid();
    return {.source = is_own ? std::string() : absl::StrCat("uid:", credentials.uid),
            .peer = "",
            .is_local = true,
            .user = credentials.uid};
  }
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {.source = text.data(),
            .peer = absl::StrCat("ipv4:", text.data(), ":", ntohs(v4.sin_port))};
  }
  if (address.ss_family != AF_INET6) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    return {.source = text.data(),
            .peer = absl::StrCat("ipv4:", text.data(), ":", ntohs(v6.sin6_port))};
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  const std::string peer = absl::StrCat("ipv6:%5B", text.data(), "%5D:", ntohs(v6.sin6_port));
  // One host may use every address of its network of 64 bits.
  in6_addr network = v6.sin6_addr;
  std::memset(&network.s6_addr[8], 0, 8);
  inet_ntop(AF_INET6, &network, text.data(), text.size());
  return {.source = text.data(), .peer = peer};
}

}  // namespace parplan
