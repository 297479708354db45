// An agent's side of leases: what to do when something happens or time passes. Decisions
// only; `LeaseAgent` has the stream, the threads and the clock.

#ifndef PARPLAN_PROFILER_AGENT_LEASE_LEASE_MACHINE_H_
#define PARPLAN_PROFILER_AGENT_LEASE_LEASE_MACHINE_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "clients/delivery/backoff.h"
#include "parplan/v1/agent_service.pb.h"

namespace parplan {

struct LeaseMachineOptions {
  // Who the agent is. An empty `instance_id` has to be filled in by whoever runs it.
  v1::AgentHello hello;
  // Between attempts to connect. A server that refuses the agent is asked at the longest
  // pause.
  BackoffOptions backoff = {.first_pause = absl::Seconds(1), .longest_pause = absl::Minutes(1)};
  // How long to wait for the server's welcome.
  absl::Duration connect_patience = absl::Seconds(30);
};

struct LeaseAction {
  enum class Kind {
    // Begin a stream, whose end is told by `StreamEnded`; or end the one there is.
    kConnect,
    kDisconnect,
    kSend,
    // The answer to a request.
    kGranted,
    kRefused,
    // Another node's lease has begun here.
    kOpened,
    // A lease that was granted or opened is over.
    kEnded,
  };

  Kind kind = Kind::kConnect;
  v1::ConnectAgentRequest message;  // Of kSend.
  v1::Lease lease;                  // Of kGranted and kOpened.
  v1::LeaseRefusal refusal;         // Of kRefused.
  v1::LeaseEnd end;                 // Of kEnded.
};

// What holds: there is at most one stream; every request has one answer; every lease that
// was granted or opened ends once, at the latest when its time is over by the agent's own
// clock or when the stream ends, whatever the server does.
//
// `now` is a time that never goes back. Not safe to use from several threads.
class LeaseMachine {
 public:
  using Actions = std::vector<LeaseAction>;

  // `random` gives numbers from 0 to 1.
  LeaseMachine(LeaseMachineOptions options, std::function<double()> random);

  Actions Start(absl::Duration now);
  Actions StreamEnded(const absl::Status& status, absl::Duration now);
  Actions Received(const v1::ConnectAgentResponse& message, absl::Duration now);

  // The id of the request must be new. Refused at once while there is no server.
  Actions Request(const v1::LeaseRequest& request, absl::Duration now);
  // Of a lease granted to this node.
  Actions Open(const std::string& lease_id, int port, absl::Duration now);
  // The lease is over for this node at once, and `kEnded` does not follow.
  Actions Return(const std::string& lease_id, const std::string& failure_reason,
                 absl::Duration now);
  Actions SetBusy(bool is_busy, absl::Duration now);

  // Does what is due: heartbeats, renewals, local ends, attempts to connect.
  Actions Tick(absl::Duration now);
  // When to call `Tick`. Infinite before `Start`.
  absl::Duration NextDeadline() const;

  bool is_connected() const { return state_ == State::kConnected; }
  // Why the last stream ended, or why there was none; OK before the first end.
  const absl::Status& last_end() const { return last_end_; }

 private:
  enum class State { kOff, kWaiting, kConnecting, kConnected };
  struct Held {
    bool is_host = false;
    absl::Duration length;  // As it was granted, for renewals.
    absl::Duration end;
    absl::Duration renewal;
  };

  void Send(v1::ConnectAgentRequest message, absl::Duration now, Actions& actions);
  void SendHeartbeat(absl::Duration now, Actions& actions);
  void Keep(const v1::Lease& lease, bool is_host, absl::Duration now);
  void End(const std::string& lease_id, v1::LeaseEndCause cause, const std::string& detail,
           Actions& actions);
  LeaseAction Refuse(const std::string& request_id) const;

  const LeaseMachineOptions options_;
  const std::function<double()> random_;
  const std::string node_id_;

  State state_ = State::kOff;
  bool is_busy_ = false;
  int failure_count_ = 0;
  absl::Status last_end_;
  // Of kWaiting: when to connect. Of kConnecting: until when to wait.
  absl::Duration deadline_;
  absl::Duration heartbeat_;       // Of kConnected: between two,
  absl::Duration next_heartbeat_;  // and the next.
  std::set<std::string> requests_;
  std::map<std::string, Held> leases_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_LEASE_LEASE_MACHINE_H_
