// Who is at the other end of a connection that was accepted. `ConnectionGate` asks.

#ifndef PARPLAN_BASE_SERVICE_LISTEN_CONNECTION_ENDS_H_
#define PARPLAN_BASE_SERVICE_LISTEN_CONNECTION_ENDS_H_

#include <sys/types.h>

#include <string>

namespace parplan {

// The other end of a connection. All is empty if the system does not say.
struct ConnectionEnds {
  // Whoever shares limits with other connections: the host, the IPv6 network of 64 bits, or the
  // user of a Unix socket, `uid:1000`. Empty for a Unix socket to which this process connected.
  std::string source;
  // gRPC's name of the connection, `ipv4:10.0.0.1:50000`; empty for a Unix socket.
  std::string peer;
  // Whether it came by a Unix socket, and the user who connected then, which a descriptor that is
  // handed to another process keeps.
  bool is_local = false;
  uid_t user = 0;
};

// Returns the other end of a connected socket.
ConnectionEnds EndsOf(int connection);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LISTEN_CONNECTION_ENDS_H_
