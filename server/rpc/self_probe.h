// Tries whether this server answers on its own address, as a client would. `RpcServer::Probe` calls
// it with the address that the `ConnectionGate` keeps.

#ifndef PARPLAN_SERVER_RPC_SELF_PROBE_H_
#define PARPLAN_SERVER_RPC_SELF_PROBE_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/service/listen/listening_sockets.h"

namespace parplan {

// Connects to `listener` and begins to speak HTTP/2, or with `uses_tls` a handshake. Returns OK
// once the server says anything, or closes the connection: then threads that accept and those of
// gRPC both work. Returns OK too if the system gives this process no socket to try with, as when no
// descriptor is left. UNAVAILABLE with no `Reason`, which says how far it came, if it cannot
// connect or nothing happens within `timeout`, which is for all of it and the longest it blocks.
absl::Status ProbeListener(const ListenerAddress& listener, bool uses_tls, absl::Duration timeout);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_SELF_PROBE_H_
