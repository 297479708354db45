// Who is at the other end of a connection: the only source that knows how gRPC says it.

#ifndef PARPLAN_SERVER_RPC_PEER_IDENTITY_H_
#define PARPLAN_SERVER_RPC_PEER_IDENTITY_H_

#include <grpcpp/server_context.h>

#include <memory>

#include "server/access/authorizer.h"
#include "server/access/caller.h"

namespace parplan {

// Returns the caller by the names of the certificate that TLS verified; the anonymous one if there
// is none. Nothing that the caller writes into its call counts.
std::shared_ptr<const Caller> CallerOf(const grpc::ServerContextBase& context,
                                       Authorizer& authorizer);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_PEER_IDENTITY_H_
