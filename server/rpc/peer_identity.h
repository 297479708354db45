// Who is at the other end of a connection: the only source that knows how gRPC says it. `Call` asks
// at its beginning, and `UndecodableCalls` for the log.

#ifndef PARPLAN_SERVER_RPC_PEER_IDENTITY_H_
#define PARPLAN_SERVER_RPC_PEER_IDENTITY_H_

#include <grpcpp/server_context.h>

#include <memory>

#include "absl/time/time.h"
#include "base/service/listen/connection_gate.h"
#include "server/access/authorizer.h"
#include "server/access/caller.h"
#include "server/access/credential.h"

namespace parplan {

// Returns the caller by the names of the certificate that TLS verified; its end is not looked at
// here. Without one: the caller by the token of a service account in the metadata `authorization`,
// if the server reads tokens and the call has one; else the caller by the user who made the
// connection of a Unix socket, as `gate` knows it; else the anonymous caller. A token that came
// over a connection that others may have read, without TLS and not a Unix socket, is refused, as
// are one that proves nothing, a value that does not begin with `Bearer ` (in upper or lower case)
// and a second value; the caller then is a refused one (`Caller::Refused`). Nothing else that the
// caller writes into its call counts. `now` is the time of day. Never null. Waits for no disk or
// network; a token takes some 0.1 ms each time.
std::shared_ptr<const Caller> CallerOf(const grpc::ServerContextBase& context,
                                       const ConnectionGate& gate, Authorizer& authorizer,
                                       absl::Time now);

// Returns what `CallerOf` found the caller by, with its end. Verifies the token anew, and reads
// a certificate that it has not read before, so it is for streams. REQUIRES: `CallerOf` did not
// refuse the caller; how a token came is not looked at again.
Credential CredentialOf(const grpc::ServerContextBase& context, const ConnectionGate& gate,
                        Authorizer& authorizer, absl::Time now);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_PEER_IDENTITY_H_
