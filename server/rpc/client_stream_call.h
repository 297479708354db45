// A call with a stream of requests and one answer. `UploadProfile` and `ReportMetrics` are such
// calls.

#ifndef PARPLAN_SERVER_RPC_CLIENT_STREAM_CALL_H_
#define PARPLAN_SERVER_RPC_CLIENT_STREAM_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/call.h"

namespace parplan {

// Hands every request to a session of the core, which `make_session` returns, as a unique_ptr that
// is not null, for the context of the call. The session asks the `CallGuard` at its first request;
// this call does not. Its `Add` returns a Status and its `Finish` returns the answer, a StatusOr;
// both run on a thread of `RpcContext::pool`, which may wait for a disk, one at a time. A session
// is destroyed before the status is sent, without `Finish` after an error. Reads the next request
// once the session has taken the one before. `rpc` outlives the call.
//
// The call ends with the answer of `Finish` or with:
//   - the error of the session, INTERNAL with no `Reason` if it threw;
//   - CANCELLED with no `Reason` if the stream broke;
//   - DEADLINE_EXCEEDED with no `Reason` if the client sent nothing for
//     `RpcContext::max_first_silence` at first or for `RpcContext::max_stream_silence` later, or
//     has not ended its stream by the deadline of the call;
//   - UNAUTHENTICATED (ROLE_REQUIRED) if the caller's credential ended before its stream
//     (`CredentialWatch`).
// None of these errors interrupts `Add` or `Finish`: one that comes while `Add` runs ends the call
// after it, and the answer of a `Finish` that has begun is sent.
//
// gRPC reports the end of the stream in the same way when the client half-closes and when its
// connection breaks, and half an upload must never count as a whole one. So the call sends its
// initial metadata before `Finish`: on a broken stream that fails.
template <typename Request, typename Response, typename Session>
class ClientStreamCall final : public grpc::ServerReadReactor<Request> {
 public:
  // Starts a call that owns itself, and returns it for gRPC, which keeps `response` until the
  // answer.
  template <typename MakeSession>
  static ClientStreamCall* Start(const RpcContext& rpc, absl::string_view method,
                                 grpc::CallbackServerContext* server_context, Response* response,
                                 const MakeSession& make_session) {
    std::shared_ptr<ClientStreamCall> call(
        new ClientStreamCall(rpc, method, *server_context, response));
    call->self_ = call;
    call->session_ = make_session(call->call_.context());
    call->call_.WatchCredential(*server_context,
                                [weak = std::weak_ptr(call)](const absl::Status& status) {
                                  if (const auto held = weak.lock()) held->Revoke(status);
                                });
    const absl::Duration left = call->call_.time_left();
    if (left != absl::InfiniteDuration()) {
      call->deadline_alarm_ = rpc.alarms.Set(left, [weak = std::weak_ptr(call)] {
        if (const auto held = weak.lock()) held->EndWhileReading(LateStreamError());
      });
    }
    call->Read(rpc.max_first_silence);
    return call.get();
  }

  void OnReadDone(bool ok) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      rpc_.alarms.Remove(alarm_);
      if (ended_) return;
      reading_ = false;
    }
    if (ok) {
      rpc_.pool.Run([call = self_] { call->Take(); });
    } else {
      this->StartSendInitialMetadata();
    }
  }

  void OnSendInitialMetadataDone(bool ok) override {
    if (ok) {
      rpc_.pool.Run([call = self_] { call->Close(); });
    } else {
      End(absl::CancelledError("the stream broke before its end"));
    }
  }

  void OnCancel() override { call_.context()->Cancel(); }
  void OnDone() override {
    call_.Done();
    self_.reset();
  }

 private:
  ClientStreamCall(const RpcContext& rpc, absl::string_view method,
                   grpc::CallbackServerContext& server_context, Response* response)
      : rpc_(rpc), call_(rpc, method, server_context), response_(response) {}

  // Reads the next request, for which the client has `max_silence`.
  void Read(absl::Duration max_silence) {
    absl::Status revoked;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      revoked = revoked_;
      if (revoked.ok()) {
        reading_ = true;
        ++starting_;
        alarm_ = rpc_.alarms.Set(max_silence, [max_silence, call = std::weak_ptr(self_)] {
          if (const auto held = call.lock()) held->EndWhileReading(SilentStreamError(max_silence));
        });
      }
    }
    if (!revoked.ok()) {
      End(revoked);
      return;
    }
    // No lock is held while gRPC works: it may call back on this thread.
    this->StartRead(&request_);
    absl::Status late;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (--starting_ > 0 || !reading_ || ended_ || late_.ok()) return;
      ended_ = true;
      late = late_;
    }
    End(late);
  }

  void EndWhileReading(const absl::Status& status) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      // A message came while the alarm rang.
      if (!reading_ || ended_) return;
      if (starting_ > 0) {
        late_ = status;
        return;
      }
      ended_ = true;
    }
    End(status);
  }

  // The credential has ended: ends the call before the next message, at once if it waits for one.
  void Revoke(const absl::Status& status) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      revoked_ = status;
    }
    EndWhileReading(status);
  }

  void Take() {
    const absl::Status taken = WithoutExceptions([this] { return session_->Add(request_); });
    if (!taken.ok()) {
      End(taken);
      return;
    }
    request_.Clear();
    // The alarm rang while no message was waited for.
    if (call_.time_left() <= absl::ZeroDuration()) {
      End(LateStreamError());
      return;
    }
    Read(rpc_.max_stream_silence);
  }

  void Close() {
    absl::StatusOr<Response> answer = WithoutExceptions([this] { return session_->Finish(); });
    const absl::Status status = answer.status();
    int64_t bytes = 0;
    if (status.ok()) {
      *response_ = *std::move(answer);
      bytes = AnswerBytes(*response_);
    }
    End(status, bytes);
  }

  void End(absl::Status status, int64_t answer_bytes = 0) {
    rpc_.alarms.Remove(deadline_alarm_);
    session_.reset();
    this->Finish(call_.End(std::move(status), answer_bytes));
  }

  const RpcContext& rpc_;
  Call call_;
  Response* const response_;
  std::unique_ptr<Session> session_;
  Request request_;
  std::shared_ptr<ClientStreamCall> self_;

  std::mutex mutex_;
  bool reading_ = false;
  bool ended_ = false;    // By an alarm, while gRPC still reads.
  absl::Status revoked_;  // OK while the credential holds.
  // Threads inside `StartRead`, after which nothing may be started once the call has finished, and
  // the error of an alarm that rang meanwhile, else OK.
  int starting_ = 0;
  absl::Status late_;
  AlarmThread::Alarm alarm_;
  AlarmThread::Alarm deadline_alarm_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_CLIENT_STREAM_CALL_H_
