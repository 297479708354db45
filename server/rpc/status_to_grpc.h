// Errors of the core as statuses of the wire.

#ifndef PARPLAN_SERVER_RPC_STATUS_TO_GRPC_H_
#define PARPLAN_SERVER_RPC_STATUS_TO_GRPC_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace parplan {

// Bytes that message and details of one error may take among the trailing
// metadata. gRPC's clients refuse a call whose metadata exceed 8 KiB, and would
// report that in the place of the error.
inline constexpr int kMaxErrorBytes = 7400;

// The same code and message. A status made by `MakeError` gets a serialized
// google.rpc.Status with one google.rpc.ErrorInfo in its details. An error that
// is larger than `kMaxErrorBytes` loses first the end of its message, then its
// last facts; the fact `omittedCount` says how many.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_STATUS_TO_GRPC_H_
