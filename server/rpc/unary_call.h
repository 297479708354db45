// A call with one request and one answer. The methods of services.h start them by `AnswerOnPool`
// and `AnswerNow`, or by `Start` if a search answers.

#ifndef PARPLAN_SERVER_RPC_UNARY_CALL_H_
#define PARPLAN_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/call.h"

namespace parplan {

// One call. Lives until gRPC is done with it and no thread that may answer holds it.
template <typename Response>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // Begins a call, and does not ask whether the caller may make it. The method that gRPC called
  // returns it (`get()`), ends it at once if `admission` is an error, sees to it that `Authorize`
  // is asked before any work, on a thread that may wait, and that `End` is called, also after the
  // call was cancelled. `rpc` outlives the call;
  // gRPC keeps the request and `response` until the answer.
  static std::shared_ptr<UnaryCall> Start(const RpcContext& rpc, absl::string_view method,
                                          grpc::CallbackServerContext* server_context,
                                          Response* response) {
    std::shared_ptr<UnaryCall> call(new UnaryCall(rpc, method, *server_context, response));
    call->self_ = call;
    return call;
  }

  const std::shared_ptr<CallContext>& context() const { return call_.context(); }

  // See `Call::admission`.
  const absl::Status& admission() const { return call_.admission(); }

  // See `Call::Authorize`.
  template <typename Request>
  absl::Status Authorize(const Request& request) const {
    return call_.Authorize(request);
  }

  // Answer the call, from any thread; only the first answer counts. A status of OK leaves the
  // response as it is. A pointer in an answer is not null.
  void End(absl::Status status) {
    if (ended_.exchange(true)) return;
    const int64_t bytes = ResponseBytes(status);
    Finish(call_.End(std::move(status), bytes));
  }
  void End(absl::StatusOr<Response> answer) {
    if (ended_.exchange(true)) return;
    const absl::Status status = answer.status();
    if (status.ok()) *response_ = *std::move(answer);
    Finish(call_.End(status, ResponseBytes(status)));
  }
  void End(const absl::StatusOr<std::shared_ptr<const Response>>& answer) {
    if (ended_.exchange(true)) return;
    if (answer.ok()) *response_ = **answer;
    Finish(call_.End(answer.status(), ResponseBytes(answer.status())));
  }

  void OnCancel() override { call_.context()->Cancel(); }
  void OnDone() override {
    call_.Done();
    self_.reset();
  }

 private:
  UnaryCall(const RpcContext& rpc, absl::string_view method,
            grpc::CallbackServerContext& server_context, Response* response)
      : call_(rpc, method, server_context), response_(response) {}

  // gRPC sends the response with OK alone.
  int64_t ResponseBytes(const absl::Status& status) const {
    return status.ok() ? AnswerBytes(*response_) : 0;
  }

  Call call_;
  Response* const response_;
  std::atomic<bool> ended_ = false;
  std::shared_ptr<UnaryCall> self_;
};

// Runs `work`, a function that returns a StatusOr<Response> and takes nothing or a `const Caller&`,
// on a thread of `rpc.pool`, which may wait for a disk, and answers with its result, or INTERNAL if
// it throws. Answers with the refusal, and runs nothing, if the caller may not make the call. Does
// not look at the deadline: `work` runs also if the call was cancelled or is late by then. Returns
// the reactor, for gRPC.
template <typename Request, typename Response, typename Work>
grpc::ServerUnaryReactor* AnswerOnPool(const RpcContext& rpc, absl::string_view method,
                                       grpc::CallbackServerContext* server_context,
                                       const Request* request, Response* response, Work work) {
  const auto call = UnaryCall<Response>::Start(rpc, method, server_context, response);
  if (!call->admission().ok()) {
    call->End(call->admission());
    return call.get();
  }
  rpc.pool.Run([call, request, work = std::move(work)] {
    call->End(WithoutExceptions([&]() -> absl::StatusOr<Response> {
      if (const absl::Status allowed = call->Authorize(*request); !allowed.ok()) return allowed;
      if constexpr (std::is_invocable_v<const Work&, const Caller&>) {
        return work(*call->context()->caller());
      } else {
        return work();
      }
    }));
  });
  return call.get();
}

// Runs `work`, which takes nothing and must not wait for a disk or network, on this thread, and
// answers as `AnswerOnPool` does. It is for methods that change nothing and are about no plan: for
// these `Authorize` does not wait either.
template <typename Request, typename Response, typename Work>
grpc::ServerUnaryReactor* AnswerNow(const RpcContext& rpc, absl::string_view method,
                                    grpc::CallbackServerContext* server_context,
                                    const Request* request, Response* response, const Work& work) {
  const auto call = UnaryCall<Response>::Start(rpc, method, server_context, response);
  call->End(WithoutExceptions([&]() -> absl::StatusOr<Response> {
    if (!call->admission().ok()) return call->admission();
    if (const absl::Status allowed = call->Authorize(*request); !allowed.ok()) return allowed;
    return work();
  }));
  return call.get();
}

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_UNARY_CALL_H_
