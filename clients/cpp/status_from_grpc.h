// Converts the status of a call into an error with its reason. The clients in this folder call it
// after every call.

#ifndef PARPLAN_CLIENTS_CPP_STATUS_FROM_GRPC_H_
#define PARPLAN_CLIENTS_CPP_STATUS_FROM_GRPC_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace parplan {

// Returns OK for OK, else the same code and message with the `ErrorDetail` of the server and the
// time after which it says that a call may succeed (`GetRetryDelay`; both base/error.h). There is
// neither if this release does not know the reason, or if the error is not parplan's (a proxy's, a
// broken connection's). If no connection was made to the address, the error is marked
// (`IsUnreachable` of base/unreachable.h).
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_STATUS_FROM_GRPC_H_
