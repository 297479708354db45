// Converts the status of a call into an error with its reason. The clients in this folder call it
// after every call.

#ifndef PARPLAN_CLIENTS_CPP_STATUS_FROM_GRPC_H_
#define PARPLAN_CLIENTS_CPP_STATUS_FROM_GRPC_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace parplan {

// Returns OK for OK, else the same code and message with the `ErrorDetail` (base/error.h) of the
// server. There is no detail if this release does not know the reason, or if the error is not
// parplan's (a proxy's, a broken connection's). If nothing answered at the address, the error is
// marked (`IsUnreachable` of base/unreachable.h).
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_STATUS_FROM_GRPC_H_
