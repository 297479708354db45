#include "server/rpc/search_call.h"

#include <utility>

#include "absl/status/status.h"

namespace parplan {

SearchCall* SearchCall::Start(const RpcContext& rpc, grpc::CallbackServerContext* server_context,
                              const v1::CreatePlanRequest& request) {
  std::shared_ptr<SearchCall> call(new SearchCall(rpc, *server_context));
  call->self_ = call;
  call->call_.WatchCredential(*server_context,
                              [weak = std::weak_ptr(call)](const absl::Status& status) {
                                if (const auto held = weak.lock()) held->Revoke(status);
                              });
  if (const absl::Status& admission = call->call_.admission(); !admission.ok()) {
    call->Conclude(admission);
    call->LeaveRequest();
    return call.get();
  }
  // gRPC keeps the request until the call ends, which it does not before this has run.
  rpc.question_pool.Run([&rpc, call, &request] {
    const absl::Status started = WithoutExceptions([&] {
      // The credential may have ended meanwhile.
      if (call->HasAnswer()) return absl::OkStatus();
      if (const absl::Status allowed = call->call_.Authorize(request); !allowed.ok()) {
        return allowed;
      }
      rpc.core.plans().SearchPlan(
          call->call_.context(), request,
          [call](const v1::SearchProgress& progress) { call->SendProgress(progress); },
          [call](const absl::StatusOr<SharedPlan>& answer) { call->Conclude(answer); });
      return absl::OkStatus();
    });
    if (!started.ok()) call->Conclude(started);
    call->LeaveRequest();
  });
  return call.get();
}

SearchCall::SearchCall(const RpcContext& rpc, grpc::CallbackServerContext& server_context)
    : call_(rpc, "SearchPlan", server_context) {}

void SearchCall::SendProgress(const v1::SearchProgress& progress) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (answer_.has_value()) return;
    news_ = progress;
  }
  Advance();
}

void SearchCall::Conclude(const absl::StatusOr<SharedPlan>& answer) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (answer_.has_value()) return;
    // Progress that the client does not take would keep the answer, and the call, for ever.
    call_.AnswerReady(answer.ok() ? AnswerBytes(**answer) : 0);
    answer_ = answer;
    news_.reset();
  }
  Advance();
}

bool SearchCall::HasAnswer() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return answer_.has_value();
}

void SearchCall::LeaveRequest() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    reads_request_ = false;
  }
  Advance();
}

void SearchCall::Revoke(const absl::Status& status) {
  Conclude(status);
  call_.context()->Cancel();
}

void SearchCall::OnWriteDone(bool /*ok*/) {
  // A message that could not be sent means that the client is gone; OnCancel then ends the call.
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
  }
  Advance();
}

void SearchCall::Advance() {
  bool ending = false;
  absl::Status status;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (writing_ || finished_) return;
    if (answer_.has_value()) {
      if (reads_request_) return;
      ending = finished_ = true;
      status = answer_->status();
      if (status.ok()) *message_.mutable_plan() = ***answer_;
    } else if (news_.has_value()) {
      *message_.mutable_progress() = *std::move(news_);
      news_.reset();
      writing_ = true;
    } else {
      return;
    }
  }
  // No lock is held while gRPC works: it may call back on this thread.
  if (!ending) {
    StartWrite(&message_);
  } else if (status.ok()) {
    StartWriteAndFinish(&message_, grpc::WriteOptions(), call_.End(status));
  } else {
    Finish(call_.End(status));
  }
}

}  // namespace parplan
