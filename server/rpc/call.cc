#include "server/rpc/call.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "server/rpc/peer_identity.h"
#include "server/rpc/status_to_grpc.h"
#include "server/rpc/trace.h"

namespace parplan {
namespace {

// Returns the first value of a metadata key; empty if there is none.
absl::string_view MetadataValue(const grpc::CallbackServerContext& context, const char* key) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(key);
  if (found == metadata.end()) return "";
  return absl::string_view(found->second.data(), found->second.size());
}

std::string RequestIdOf(const grpc::CallbackServerContext& context) {
  const absl::string_view given = MetadataValue(context, kRequestIdMetadata);
  return IsRequestId(given) ? std::string(given) : MakeRequestId();
}

// A cancellation this close before the deadline counts as the deadline: a caller cancels by its own
// clock, and its message may arrive a moment before the deadline of this server's clock.
constexpr absl::Duration kDeadlineTolerance = absl::Milliseconds(20);

absl::Duration TimeLeft(const grpc::CallbackServerContext& context, absl::Duration fallback) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return fallback;
  return absl::FromChrono(deadline - std::chrono::system_clock::now());
}

}  // namespace

std::string HostOfPeer(absl::string_view peer) {
  if (absl::StartsWith(peer, "unix") || absl::StartsWith(peer, kDescriptorPeer)) return "";
  return std::string(peer.substr(0, peer.rfind(':')));
}

Call::Call(const RpcContext& rpc, absl::string_view method,
           grpc::CallbackServerContext& server_context, Deadline deadline)
    : rpc_(rpc), server_context_(server_context), start_(rpc.core.clock().Steady()) {
  ++rpc_.call_count;
  record_.method = std::string(method);
  record_.request_id = RequestIdOf(server_context);
  record_.trace_id = TraceIdOf(MetadataValue(server_context, "traceparent"));
  record_.peer = server_context.peer();
  server_context.AddTrailingMetadata(kRequestIdMetadata, record_.request_id);
  std::shared_ptr<const Caller> caller =
      CallerOf(server_context, rpc.gate, rpc.authorizer, rpc.core.clock().Now());
  record_.identity = caller->identity().text();
  context_ = CallContext::Create(
      record_.request_id,
      TimeLeft(server_context,
               deadline == Deadline::kNone ? absl::InfiniteDuration() : rpc.default_deadline),
      rpc.core.clock(), std::move(caller), HostOfPeer(record_.peer));
  memory_ = rpc.requests.Take(server_context.c_call(), context_->holder());
  rpc_.core.observer().CallStarted(method);
  rpc_.gate.CallStarted(record_.peer);
}

void Call::WatchCredential(const grpc::CallbackServerContext& server_context,
                           CredentialWatch::EndStream end) {
  const std::shared_ptr<const Caller>& caller = context_->caller();
  // A refused caller gets its error at its first message.
  if (!caller->refusal().ok()) return;
  credential_ = rpc_.credentials.Add(
      CredentialOf(server_context, rpc_.gate, rpc_.authorizer, rpc_.core.clock().Now()), caller,
      std::move(end));
}

Call::~Call() {
  Done();
  rpc_.credentials.Remove(credential_);
  const bool is_late = rpc_.core.clock().Steady() >= context_->deadline() - kDeadlineTolerance;
  rpc_.gate.CallEnded(record_.peer, context_->cancelled() && !is_late && !is_cancelled_by_server_);
  --rpc_.call_count;
}

void Call::AnswerReady(int64_t bytes) {
  if (unread_ > 0) return;
  unread_ = rpc_.unread.Add(context_->holder(), bytes, [this] { server_context_.TryCancel(); });
}

void Call::Done() {
  if (!rpc_.unread.Remove(unread_)) return;
  CancelledByServer();
  // Otherwise the client took the answer in the last moment.
  if (!context_->cancelled()) return;
  rpc_.core.observer().AnswerBrokenOff();
  if (!rpc_.logger) return;
  record_.code = absl::StatusCode::kCancelled;
  record_.reason.reset();
  record_.message =
      "the client did not read the answer in time, or had most of all answers that were not read; "
      "the call was broken off";
  record_.duration = rpc_.core.clock().Steady() - start_;
  rpc_.logger(record_);
}

grpc::Status Call::End(absl::Status status, int64_t answer_bytes) {
  rpc_.credentials.Remove(credential_);
  AnswerReady(answer_bytes);
  const absl::Duration now = rpc_.core.clock().Steady();
  if (status.code() == absl::StatusCode::kCancelled &&
      now >= context_->deadline() - kDeadlineTolerance) {
    status = absl::DeadlineExceededError("the deadline of the call passed; ask with a longer one");
  }
  record_.code = status.code();
  if (const std::optional<ErrorDetail> detail = GetErrorDetail(status)) {
    record_.reason = detail->reason;
  }
  record_.message = std::string(status.message());
  record_.duration = now - start_;
  rpc_.core.observer().CallFinished(record_.method, record_.code, record_.reason, record_.duration);
  if (rpc_.logger) rpc_.logger(record_);
  return ToGrpcStatus(status);
}

absl::Status SilentStreamError(absl::Duration max_silence) {
  return absl::DeadlineExceededError(
      absl::StrCat("the stream sent nothing for ", absl::FormatDuration(max_silence),
                   "; send its messages without a pause, or begin it later"));
}

absl::Status LateStreamError() {
  return absl::DeadlineExceededError(
      "the deadline passed before the stream of requests ended; send it faster, or with a longer "
      "deadline");
}

}  // namespace parplan
