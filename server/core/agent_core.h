// The streams of agents: reads their messages, lets the keeper of leases decide, sends out its
// decisions, and wakes it when a deadline passes. `AgentCall` (server/rpc/agent_call.h) is the
// transport.

#ifndef PARPLAN_SERVER_CORE_AGENT_CORE_H_
#define PARPLAN_SERVER_CORE_AGENT_CORE_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "parplan/v1/agent_service.pb.h"
#include "server/core/agent_roster.h"
#include "server/core/call_context.h"
#include "server/core/call_guard.h"
#include "server/core/lease_keeper.h"
#include "server/core/limits.h"
#include "server/core/observer.h"

namespace parplan {

// The agent's end of a stream, implemented by the transport. Safe to use from any thread.
class AgentPeer {
 public:
  virtual ~AgentPeer() = default;

  // `Send` and `Close` only queue: the message, or the end of the stream, is sent at the next
  // `Flush`, in the order of the calls. They are called with the lock of the core and must not call
  // it. Messages after `Close` are dropped. The core closes with ABORTED (AGENT_CONNECTED) if an
  // agent has connected anew as this node, DEADLINE_EXCEEDED with no `Reason` after
  // `Limits::longest_agent_silence`, and UNAVAILABLE (DRAINING).
  virtual void Send(v1::ConnectAgentResponse message) = 0;
  virtual void Close(const absl::Status& status) = 0;

  // Sends what is queued. Called without any lock of the core.
  virtual void Flush() = 0;
};

class AgentCore;

// One stream. Its destruction ends its connection and the lease of its node. Used by one thread at
// a time.
class AgentSession {
 public:
  ~AgentSession();

  // Handles one message, `hello` first, which may wait for the disk of the audit log. Messages
  // after the core closed the stream change nothing. After an error the transport must end the
  // stream with it: INVALID_ARGUMENT (SPEC_INVALID) naming the field; for `hello` also
  // ALREADY_EXISTS (AGENT_CONNECTED) while another agent is connected as this node,
  // RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE) at `Limits::max_agent_count` and (QUOTA_EXCEEDED) at a
  // quota, UNAVAILABLE (DRAINING), and the errors of `CallGuard::Check`, such as PERMISSION_DENIED
  // for a caller that is not the agent of this node. A refused lease is an answer to the agent and
  // no error. A lease of busy nodes is granted only to a caller that is an operator of the cluster
  // too, or unrestricted.
  absl::Status Add(const v1::ConnectAgentRequest& request);

  // Takes in place of a message one that cannot be decoded, which `why`, an error, says. Returns
  // that, or before the first message the error of `CallGuard::CheckUndecoded`; the transport must
  // end the stream with it.
  absl::Status AddUndecoded(const absl::Status& why);

 private:
  friend class AgentCore;
  AgentSession(AgentCore* core, std::shared_ptr<AgentPeer> peer,
               std::shared_ptr<CallContext> context)
      : core_(core), context_(std::move(context)), peer_(std::move(peer)) {}

  AgentCore* const core_;
  const std::shared_ptr<CallContext> context_;
  std::shared_ptr<AgentPeer> peer_;
  AgentConnection connection_ = 0;  // 0 before the first message.
  std::string cluster_;             // Of the agent; empty before the first message.
};

// Serves the streams of all agents. Safe to use from any thread.
class AgentCore {
 public:
  // REQUIRES, unchecked: the arguments outlive the core.
  AgentCore(const Clock& clock, Observer& observer, const Limits& limits, CallGuard& guard);
  // Drains. REQUIRES: every session was destroyed, which is not checked.
  ~AgentCore();

  // Starts the session of one stream, which must end before the core does. Session and core share
  // `peer`, which may live a moment longer than the session. Neither argument may be null, nor is
  // the result.
  std::unique_ptr<AgentSession> StartSession(
      std::shared_ptr<AgentPeer> peer,
      std::shared_ptr<CallContext> context = CallContext::OfItself());

  // Lists the connected agents of a cluster by node. INVALID_ARGUMENT (SPEC_INVALID) for a `parent`
  // that is no cluster.
  absl::StatusOr<v1::ListAgentsResponse> List(const v1::ListAgentsRequest& request);

  // Ends the leases and connections that are overdue. A thread of the core calls it at each
  // deadline; tests with a clock of their own call it themselves.
  void Tick();

  // Ends all leases, and all streams, present and later ones, with UNAVAILABLE (DRAINING). May be
  // called more than once.
  void Drain();

 private:
  friend class AgentSession;
  // The peers to flush once the lock is released.
  class Round;

  absl::Status Greet(const v1::ConnectAgentRequest& request, AgentSession* session);
  absl::Status Handle(const v1::ConnectAgentRequest& request, const AgentSession& session);
  absl::Status Ask(const v1::LeaseRequest& request, const AgentSession& session, Round& round);
  void Leave(AgentConnection connection);
  void Watch();

  const Clock& clock_;
  Observer& observer_;
  const Limits limits_;
  CallGuard& guard_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as the rest.
  LeaseKeeper keeper_;
  AgentRoster roster_;
  std::map<AgentConnection, std::shared_ptr<AgentPeer>> peers_;
  AgentConnection last_connection_ = 0;
  bool draining_ = false;
  std::thread watcher_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_AGENT_CORE_H_
