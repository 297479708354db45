// Binding and listening, for a server that accepts its connections itself. `RpcServer::Start` calls
// it for the `ConnectionGate`.

#ifndef PARPLAN_SERVER_RPC_LISTENING_SOCKETS_H_
#define PARPLAN_SERVER_RPC_LISTENING_SOCKETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/system/posix_file.h"

namespace parplan {

// Sockets that listen and never block, one for each address that the name of a host has.
struct ListeningSockets {
  std::vector<FileDescriptor> descriptors;
  // The port of all of them; 1 for a Unix socket, as in gRPC.
  int port = 0;
};

// Listens on `address`, which passes `CheckListenAddress`; port 0 takes a free one. A Unix socket
// without a listener is replaced. UNAVAILABLE, which says why, if the name has no address or none
// of its addresses can be bound.
absl::StatusOr<ListeningSockets> Listen(const std::string& address);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_LISTENING_SOCKETS_H_
