#include "server/main/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/system/posix_file.h"

namespace parplan {

absl::Status NotifyServiceManager(const std::string& state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || *path == '\0') return absl::OkStatus();
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(path);
  if ((*path != '/' && *path != '@') || length >= sizeof(address.sun_path)) {
    return absl::UnavailableError(absl::StrCat("NOTIFY_SOCKET is no address: ", path));
  }
  std::memcpy(address.sun_path, path, length);
  // An abstract socket, which has no file.
  if (*path == '@') address.sun_path[0] = '\0';
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const ssize_t sent =
      descriptor < 0 ? -1
                     : ::sendto(descriptor, state.data(), state.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&address),
                                static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (sent == static_cast<ssize_t>(state.size())) return absl::OkStatus();
  return absl::UnavailableError(
      DescribeErrno(error, absl::StrCat("cannot send ", state, " to the service manager")));
}

}  // namespace parplan
