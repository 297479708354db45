// Makes a call with one request and one answer. The clients in this folder make all calls but
// streams by it.

#ifndef PARPLAN_CLIENTS_CPP_UNARY_H_
#define PARPLAN_CLIENTS_CPP_UNARY_H_

#include <grpcpp/client_context.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/retry.h"
#include "clients/cpp/status_from_grpc.h"

namespace parplan {

// Calls a method of a stub, such as `&v1::PlanService::StubInterface::GetPlan`, once, and waits for
// its answer, at most `options.timeout`. Errors are those of FromGrpcStatus. Safe from any thread.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> CallUnaryOnce(Stub& stub,
                                       grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                    const Request&, Response*),
                                       const Request& request, const CallOptions& options) {
  grpc::ClientContext context;
  ApplyCallOptions(options, context);
  Response response;
  const absl::Status status = FromGrpcStatus((stub.*method)(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

// Calls an idempotent method of a stub like CallUnaryOnce, with retries (retry.h). Returns the
// answer, or the error of the last try.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> CallUnary(Stub& stub,
                                   grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                const Request&, Response*),
                                   const Request& request, const CallOptions& options) {
  return WithRetries(
      options, [&](const CallOptions& rest) { return CallUnaryOnce(stub, method, request, rest); });
}

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_UNARY_H_
