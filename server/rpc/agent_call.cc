#include "server/rpc/agent_call.h"

#include <grpcpp/support/slice.h>

#include <utility>

#include "absl/strings/string_view.h"
#include "base/error.h"
#include "server/core/request_rules.h"
#include "server/rpc/bounded_request.h"

namespace parplan {
namespace {

// Messages that may wait for an agent; more end its stream. An agent that reads has a few at most.
constexpr size_t kMaxQueueLength = 256;

}  // namespace

AgentCall* AgentCall::Start(const RpcContext& rpc, grpc::CallbackServerContext* server_context) {
  std::shared_ptr<AgentCall> call(new AgentCall(rpc, *server_context));
  call->self_ = call;
  call->session_ = rpc.core.agents().StartSession(call, call->call_->context());
  call->first_message_alarm_ = rpc.alarms.Set(rpc.max_first_silence, [weak = std::weak_ptr(call)] {
    if (const auto held = weak.lock()) held->EndSilent();
  });
  call->call_->WatchCredential(*server_context,
                               [weak = std::weak_ptr(call)](const absl::Status& status) {
                                 if (const auto held = weak.lock()) held->Revoke(status);
                               });
  call->StartRead(&call->request_);
  return call.get();
}

AgentCall::AgentCall(const RpcContext& rpc, grpc::CallbackServerContext& server_context)
    : rpc_(rpc),
      server_context_(server_context),
      call_(std::in_place, rpc, "ConnectAgent", server_context, Call::Deadline::kNone) {}

void AgentCall::OnReadDone(bool ok) {
  bool is_first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_first = !heard_;
    if (is_first) rpc_.alarms.Remove(first_message_alarm_);
    heard_ = true;
    ok = ok && !revoked_;
    taking_first_ = is_first && ok;
  }
  if (!ok) {
    // The agent has closed its side, or its connection broke: its leases end either way.
    session_.reset();
    End(call_->context()->cancelled()
            ? absl::CancelledError("the stream broke, or the agent gave it up")
            : absl::OkStatus());
    return;
  }
  // The first message goes to the audit log, which waits for its disk.
  if (is_first) {
    rpc_.pool.Run([call = self_] { call->TakeFirst(); });
  } else {
    Take();
  }
}

void AgentCall::TakeFirst() {
  Take();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    taking_first_ = false;
  }
  Flush();
}

absl::Status AgentCall::AddRequest() {
  grpc::Slice whole;
  if (!request_.DumpToSingleSlice(&whole).ok()) {
    return absl::InternalError("the server cannot read a message of the agent");
  }
  const absl::string_view bytes(reinterpret_cast<const char*>(whole.begin()), whole.size());
  v1::ConnectAgentRequest request;
  if (!HasFewParts(*request.descriptor(), bytes, kMaxAgentMessageParts) ||
      !request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return session_->AddUndecoded(
        RequestError("message",
                     "is no message of parplan.v1.ConnectAgentRequest, or has more parts than any "
                     "message of an agent"));
  }
  return session_->Add(request);
}

void AgentCall::Take() {
  const absl::Status taken = WithoutExceptions([this] { return AddRequest(); });
  if (!taken.ok()) {
    session_.reset();
    End(taken);
    return;
  }
  request_.Clear();
  // gRPC keeps the stream while its thread runs this, even if another thread ends it.
  StartRead(&request_);
}

void AgentCall::OnWriteDone(bool ok) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    if (!ok) broken_ = true;
  }
  Flush();
}

void AgentCall::OnDone() {
  session_.reset();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    // Else each stream that ends would leave its alarm for a while.
    for (const AlarmThread::Alarm& alarm : cancel_alarms_) rpc_.alarms.Remove(alarm);
  }
  // The core may hold this object for a moment after the server is gone.
  call_.reset();
  self_.reset();
}

void AgentCall::Send(v1::ConnectAgentResponse message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (end_.has_value() || broken_) return;
  if (queue_.size() >= kMaxQueueLength) {
    queue_.clear();
    end_ = MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                     "the agent reads none of its messages; connect anew");
    CancelLater();
    return;
  }
  queue_.push_back(std::move(message));
}

void AgentCall::Close(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (end_.has_value()) return;
  end_ = status;
  CancelLater();
}

void AgentCall::End(const absl::Status& status) {
  Close(status);
  Flush();
}

void AgentCall::EndSilent() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (heard_) return;
  }
  End(SilentStreamError(rpc_.max_first_silence));
}

void AgentCall::Revoke(const absl::Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    revoked_ = true;
    queue_.clear();
    if (!finished_) end_ = status;
    CancelLater();
  }
  Flush();
}

void AgentCall::CancelLater() {
  // The server, and with it the thread of the alarms, may be gone.
  if (done_) return;
  cancel_alarms_.push_back(rpc_.alarms.Set(rpc_.max_stream_silence, [weak = weak_from_this()] {
    const auto held = weak.lock();
    if (held == nullptr) return;
    const std::lock_guard<std::mutex> lock(held->mutex_);
    if (held->done_) return;
    held->call_->CancelledByServer();
    held->server_context_.TryCancel();
  }));
}

void AgentCall::Flush() {
  std::optional<absl::Status> end;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (writing_ || finished_) return;
    if (broken_) queue_.clear();
    if (!queue_.empty()) {
      const grpc::Slice slice(queue_.front().SerializeAsString());
      message_ = grpc::ByteBuffer(&slice, 1);
      queue_.pop_front();
      writing_ = true;
    } else if (end_.has_value() && !taking_first_) {
      end = end_;
      finished_ = true;
    } else {
      return;
    }
  }
  // No lock is held while gRPC works: it may call back on this thread. `writing_` and `finished_`
  // keep other threads out.
  if (end.has_value()) {
    Finish(call_->End(*end));
  } else {
    StartWrite(&message_);
  }
}

}  // namespace parplan
