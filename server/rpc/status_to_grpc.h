// Converts errors of the core to gRPC statuses. `Call::End` calls it for every answer.

#ifndef PARPLAN_SERVER_RPC_STATUS_TO_GRPC_H_
#define PARPLAN_SERVER_RPC_STATUS_TO_GRPC_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace parplan {

// Bytes that message and details of one error may have in the trailing metadata, as they are sent:
// percent-encoded and in base64. gRPC's clients refuse a call whose metadata exceeds 8 KiB and
// report that instead of the error; the difference is for the other metadata.
inline constexpr int kMaxErrorBytes = 7400;

// Returns a status with the same code and message, OK for OK. A status made by `MakeError` gets a
// serialized google.rpc.Status with one google.rpc.ErrorInfo in its details, and one
// google.rpc.RetryInfo if it has a time to retry (`WithRetryDelay`); another status has no details.
// An error above `kMaxErrorBytes` loses first the end of its message, all after 400 bytes, then its
// facts, the last by name first; the fact `omittedCount` is the number of facts lost. One without
// details keeps a third of `kMaxErrorBytes` of its message. ` [...]` stands for what was cut.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_STATUS_TO_GRPC_H_
