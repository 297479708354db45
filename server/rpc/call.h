// The part that all calls share: the id for logs, the deadline, the line in the log and the
// metrics. Each kind of call has a `Call`: unary_call.h, client_stream_call.h, search_call.h,
// agent_call.h.

#ifndef PARPLAN_SERVER_RPC_CALL_H_
#define PARPLAN_SERVER_RPC_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/service/listen/connection_gate.h"
#include "server/access/authorizer.h"
#include "server/core/call_context.h"
#include "server/core/observer.h"
#include "server/core/server_core.h"
#include "server/rpc/alarm_thread.h"
#include "server/rpc/blocking_pool.h"
#include "server/rpc/credential_watch.h"
#include "server/rpc/request_memory.h"
#include "server/rpc/unread_answers.h"

namespace parplan {

// A call that has ended, as it is logged.
struct CallRecord {
  std::string method;  // Name in the contract: `CreatePlan`.
  absl::StatusCode code = absl::StatusCode::kOk;
  // Reason of the error; absent for OK and for errors without one.
  std::optional<Reason> reason;
  std::string message;  // Message of the error; empty for OK.
  // Time from the construction of the `Call` to its end.
  absl::Duration duration;
  std::string request_id;  // Empty for a call that gRPC could not decode.
  std::string trace_id;    // Empty if the caller sent no `traceparent`.
  std::string peer;        // As gRPC writes it: `ipv4:127.0.0.1:50000`.
  std::string identity;    // `Identity::text` of the caller.
};

// Called once for each call of a method of the contract, from any thread, before its status is
// sent, which waits for it; and once more, with CANCELLED, for a call that was broken off because
// its client did not read the answer. Calls of health, reflection and unknown methods are not
// logged.
using CallLogger = std::function<void(const CallRecord& record)>;

// The state that all services share; `RpcServer` has one. It must outlive them.
struct RpcContext {
  ServerCore& core;
  // For other work that waits for a disk or the network.
  BlockingPool& pool;
  // For questions, which read the store, may merge its measurements, and wait for a known answer to
  // be signed, recorded and stored. Apart from `pool`, so that uploads do not delay them.
  BlockingPool& question_pool;
  // Empty for no log.
  CallLogger logger;
  // Deadline of calls that have none, except streams of agents (`Call::Deadline::kNone`).
  absl::Duration default_deadline;
  // Number of calls that gRPC is not done with; those of health and reflection are not counted.
  std::atomic<int>& call_count;
  // Hears of every call.
  ConnectionGate& gate;
  // Knows what callers may do.
  Authorizer& authorizer;
  AlarmThread& alarms;
  // Ends streams with their credential.
  CredentialWatch& credentials;
  // Breaks off calls whose client does not read the answer.
  UnreadAnswers& unread;
  // Bounds decoded requests.
  RequestMemory& requests;
  // How long the client of a stream may send nothing while the server waits for its first message,
  // and for a later one.
  absl::Duration max_first_silence;
  absl::Duration max_stream_silence;
};

// One call, from its first byte to its status. gRPC itself answers calls of unknown methods, so
// they appear in no metric, and those with requests that it cannot decode (`UndecodableCalls`). The
// context is safe to use from any thread.
class Call {
 public:
  // Whether a call that comes without a deadline is given one.
  enum class Deadline { kDefault, kNone };

  // Finds out who calls, reads the metadata and adds `x-request-id` to the trailing metadata: the
  // id of the caller if `IsRequestId` (trace.h) takes it, else a new one. `method` is the method's
  // name in the contract. Services pass `__func__`: the function that overrides gRPC's has that
  // name. `rpc` outlives the call.
  Call(const RpcContext& rpc, absl::string_view method, grpc::CallbackServerContext& server_context,
       Deadline deadline = Deadline::kDefault);
  ~Call();

  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The state of the call that the core sees; never null.
  const std::shared_ptr<CallContext>& context() const { return context_; }

  // Returns the time until the deadline: negative once it has passed, infinite if there is none.
  absl::Duration time_left() const { return context_->deadline() - rpc_.core.clock().Steady(); }

  // Returns OK if the request of the call was decoded and may be kept; else the refusal
  // (`RequestMemory::Share::status`), with which the call must end at once: its request is empty,
  // or takes memory for which there is no room.
  const absl::Status& admission() const { return memory_->status(); }

  // Returns OK if the caller may make this call; else what `CallGuard::Check` says, for which it
  // may wait.
  template <typename Request>
  absl::Status Authorize(const Request& request) const {
    return rpc_.core.guard().Check(*context_, record_.method, request);
  }

  // Calls `end` (`CredentialWatch::EndStream`) once the token or certificate of the caller has
  // expired or the configuration has taken a role from it, unless the call has ended. Does nothing
  // for a refused caller (`Caller::Refused`), which gets its error from `Authorize`. For streams;
  // to be called once at most, before anything can end the call.
  void WatchCredential(const grpc::CallbackServerContext& server_context,
                       CredentialWatch::EndStream end);

  // Says that the answer is ready and has so many bytes: the client has to read it now
  // (`UnreadAnswers`). `End` does it, for an answer that waits for nothing. A call whose answer may
  // have to wait for an earlier message does it before. Only the first call counts. To be called
  // before `Done`, by one thread at a time.
  void AnswerReady(int64_t bytes);

  // Says that gRPC is done: must be called in `OnDone`, unless the call is destroyed there. The
  // server context is not used afterwards.
  void Done();

  // Says that the server cancels the call (`TryCancel`): that is not counted as a reset by its
  // client. Not to be called while another thread destroys the call.
  void CancelledByServer() { is_cancelled_by_server_ = true; }

  // Returns the status to finish with, and counts and logs the call. `answer_bytes` is the size of
  // the message that goes with it, 0 for none. To be called once, right before the answer is sent.
  // CANCELLED becomes DEADLINE_EXCEEDED with no `Reason` if the deadline has passed or is less than
  // 20 ms away; any other status stays, also after the deadline.
  grpc::Status End(absl::Status status, int64_t answer_bytes = 0);

 private:
  const RpcContext& rpc_;
  grpc::CallbackServerContext& server_context_;  // Until gRPC is done.
  const absl::Duration start_;                   // On the steady clock.
  std::shared_ptr<CallContext> context_;
  std::unique_ptr<const RequestMemory::Share> memory_;  // Not null.
  CallRecord record_;
  int64_t credential_ = 0;  // Its number in the watch; 0 if it is not watched.
  int64_t unread_ = 0;      // Its number among the unread answers; 0 before it has one.
  std::atomic<bool> is_cancelled_by_server_ = false;
};

// Returns the bytes of an answer: of a message, or of one that is serialized already.
template <typename Answer>
int64_t AnswerBytes(const Answer& answer) {
  if constexpr (requires { answer.ByteSizeLong(); }) {
    return static_cast<int64_t>(answer.ByteSizeLong());
  } else {
    return static_cast<int64_t>(answer.Length());
  }
}

// Returns the host in gRPC's name of a peer, "ipv4:127.0.0.1:50000"; empty for a Unix socket.
std::string HostOfPeer(absl::string_view peer);

// Returns the error for a client that has sent nothing for `max_silence`: DEADLINE_EXCEEDED
// with no `Reason`.
absl::Status SilentStreamError(absl::Duration max_silence);

// Returns the error for a client whose stream of requests did not end by its deadline:
// DEADLINE_EXCEEDED with no `Reason`.
absl::Status LateStreamError();

// Returns the Status or StatusOr that `work` returns; INTERNAL with no `Reason` if it throws.
template <typename Work>
auto WithoutExceptions(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("the server failed: ", error.what(), "; report it with the request id"));
  } catch (...) {
    return absl::InternalError("the server failed; report it with the request id");
  }
}

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_CALL_H_
