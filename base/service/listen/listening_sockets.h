// Binding and listening, for a server that accepts its connections itself. `RpcServer::Start` calls
// it for the `ConnectionGate`.

#ifndef PARPLAN_BASE_SERVICE_LISTEN_LISTENING_SOCKETS_H_
#define PARPLAN_BASE_SERVICE_LISTEN_LISTENING_SOCKETS_H_

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/system/posix_file.h"

namespace parplan {

// Sockets that listen and never block: one for each address of the host that could be bound, at
// least one. Closed with this value; the file of a Unix socket stays behind, and the next `Listen`
// replaces it.
struct ListeningSockets {
  std::vector<FileDescriptor> descriptors;
  // The port of all of them; 1 for a Unix socket, as in gRPC.
  int port = 0;
};

// Address of a socket that listens.
struct ListenerAddress {
  sockaddr_storage address = {};
  socklen_t length = 0;
};

// Returns the address that a socket was bound to; its `length` is 0 if the system does not say.
ListenerAddress AddressOfListener(const FileDescriptor& listener);

// Listens on `address`; port 0 takes a free one, the same for all addresses of the host. One
// address that can be bound is enough, and nothing says which others failed. A socket of [::] takes
// connections over IPv4 too. Waits for the resolution of a name, for as long as the system's
// resolver does. The file of a Unix socket on which no process listens is replaced.
//
// Returns UNAVAILABLE with no `Reason`; its message says why: the name has no address, none of its
// addresses can be bound (in use, not of this machine, no permission), a limit on descriptors is
// reached, or the path of a Unix socket is longer than the system allows (107 bytes). REQUIRES,
// unchecked: `address` passes `CheckListenAddress` (listen_address.h).
absl::StatusOr<ListeningSockets> Listen(const std::string& address);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LISTEN_LISTENING_SOCKETS_H_
