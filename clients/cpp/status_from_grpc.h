// Statuses of the wire as errors with their reason.

#ifndef PARPLAN_CLIENTS_CPP_STATUS_FROM_GRPC_H_
#define PARPLAN_CLIENTS_CPP_STATUS_FROM_GRPC_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace parplan {

// The same code and message, with the `ErrorDetail` the server gave. A reason this
// release does not know, and an error that does not come from parplan (a proxy's,
// a broken connection's), has no detail.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_STATUS_FROM_GRPC_H_
