// The stream of an agent: hands its messages to the core and sends those of the core back, in
// order. `AgentService::ConnectAgent` starts one.

#ifndef PARPLAN_SERVER_RPC_AGENT_CALL_H_
#define PARPLAN_SERVER_RPC_AGENT_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "parplan/v1/agent_service.pb.h"
#include "server/core/agent_core.h"
#include "server/rpc/call.h"

namespace parplan {

// Parts (`HasFewParts`) that a message of an agent may have. A request for a lease of 64 nodes
// (`Limits::max_lease_node_count`) has 66; an operator may allow more nodes.
inline constexpr int64_t kMaxAgentMessageParts = 16384;

// One stream. Lives until gRPC is done with it and the core has ended its session. gRPC calls it on
// its threads, the core on any thread. It ends with the first of these, but the last one replaces
// an end that was not sent yet:
//   - INVALID_ARGUMENT (SPEC_INVALID) naming `message` for one that cannot be decoded or has more
//     parts than any (`kMaxAgentMessageParts`); at first that of `AgentSession::AddUndecoded`;
//   - OK once the agent has closed its side;
//   - the error of `AgentSession::Add`, INTERNAL with no `Reason` if that throws;
//   - the status with which the core closes it (`AgentPeer`), among them the one for silence after
//     the first message (`Limits::longest_agent_silence`);
//   - DEADLINE_EXCEEDED with no `Reason` if the agent says nothing for
//     `RpcContext::max_first_silence` at first, or if it has given the call a deadline that passes;
//   - CANCELLED with no `Reason` if the connection broke or the agent gave the call up;
//   - RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE) if 256 messages wait for the agent and one more comes,
//     which drops them all;
//   - UNAUTHENTICATED (ROLE_REQUIRED) once the agent's credential has ended (`CredentialWatch`).
//
// The end of a stream, with whatever status, follows the messages before it, except those dropped
// above and those before the end of a credential. If the agent has not read them
// `RpcContext::max_stream_silence` later, the stream is broken off: it then ends with CANCELLED.
class AgentCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                        public AgentPeer,
                        public std::enable_shared_from_this<AgentCall> {
 public:
  // Starts a stream that owns itself. `rpc` outlives it.
  static AgentCall* Start(const RpcContext& rpc, grpc::CallbackServerContext* server_context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { call_->context()->Cancel(); }
  void OnDone() override;

  // See `AgentPeer`. None of them waits for the agent.
  void Send(v1::ConnectAgentResponse message) override;
  void Close(const absl::Status& status) override;
  void Flush() override;

 private:
  AgentCall(const RpcContext& rpc, grpc::CallbackServerContext& server_context);

  // Decodes the message and hands it to the session.
  absl::Status AddRequest();
  // Does that and reads the next message.
  void Take();
  // Does the same with the first message, on a thread that may wait.
  void TakeFirst();
  // Closes the stream and sends what is queued.
  void End(const absl::Status& status);
  void EndSilent();
  // Ends the stream with its credential, even if the agent reads nothing.
  void Revoke(const absl::Status& status);
  // Breaks the stream off after a while: an agent that reads nothing would keep the message on its
  // way, and with it the stream. REQUIRES: `mutex_` is held.
  void CancelLater();

  const RpcContext& rpc_;
  grpc::CallbackServerContext& server_context_;  // Until gRPC is done.
  AlarmThread::Alarm first_message_alarm_;
  std::optional<Call> call_;               // Until gRPC is done.
  std::unique_ptr<AgentSession> session_;  // Used by the reading side.
  // Bytes: what gRPC decodes by itself takes many times the memory of a message.
  grpc::ByteBuffer request_;
  grpc::ByteBuffer message_;  // On its way while `writing_`.

  std::mutex mutex_;
  std::deque<v1::ConnectAgentResponse> queue_;  // Guarded by mutex_, as the rest.
  bool writing_ = false;
  bool broken_ = false;  // No message can reach the agent any more.
  bool finished_ = false;
  bool done_ = false;     // gRPC is done.
  bool revoked_ = false;  // Nothing more is taken from the agent.
  bool heard_ = false;    // The agent has sent a message, or its stream has ended.
  // The session has the first message on a thread that gRPC does not know of: the stream must not
  // end before it is back.
  bool taking_first_ = false;
  std::optional<absl::Status> end_;
  // At most two: for the end, and for that of the credential.
  std::vector<AlarmThread::Alarm> cancel_alarms_;

  std::shared_ptr<AgentCall> self_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_AGENT_CALL_H_
