// Hands the connections of a `ConnectionGate` to a gRPC server. Every server with a gate does:
//
//   gate.Start(HandOverTo(*server, *acceptor));

#ifndef PARPLAN_BASE_SERVICE_LISTEN_HAND_OVER_H_
#define PARPLAN_BASE_SERVICE_LISTEN_HAND_OVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "base/service/listen/connection_gate.h"

namespace parplan {

// Returns the function that hands connections over. Those that the gate names by their descriptor
// are served in plain text, with the settings of the server; gRPC gives their calls that name. All
// others go to `acceptor`, with its credentials. `server`, which has been started, and `acceptor`
// must outlive the gate's `Start`ed thread, or `StopAccepting` must be called before they end.
//
// gRPC has no time limit for the first settings of a connection that is named by its descriptor:
// one that never says them is ended once it does not answer pings.
ConnectionGate::HandOver HandOverTo(grpc::Server& server,
                                    grpc::experimental::ExternalConnectionAcceptor& acceptor);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LISTEN_HAND_OVER_H_
