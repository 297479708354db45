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
  // Between looks whether another replica is the one to be connected to; a quarter more or less,
  // by chance.
  absl::Duration look_interval = absl::Minutes(3);
};

struct LeaseAction {
  enum class Kind {
    // Begin a stream, whose end is told by `StreamEnded`: to the replica that is first now, or
    // to the one after that which has just failed; or end the one there is.
    kConnect,
    kConnectNext,
    kDisconnect,
    // Find out whether a replica that goes before this one serves, and tell it by `Looked`.
    kLook,
    kSend,
    // The stream has begun.
    kWelcomed,
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
// clock or when the stream ends, whatever the server does. Replicas are tried one after the
// other without a pause, until all have failed or one refuses the agent, which all would. The
// stream moves to a better replica only while the node is in no lease and asks for none.
//
// `now` is a time that never goes back. Not safe to use from several threads.
class LeaseMachine {
 public:
  using Actions = std::vector<LeaseAction>;

  // `random` gives numbers from 0 to 1.
  LeaseMachine(LeaseMachineOptions options, std::function<double()> random);

  Actions Start(absl::Duration now);
  // `has_next`: there is another replica to try.
  Actions StreamEnded(const absl::Status& status, absl::Duration now, bool has_next = false);
  Actions Received(const v1::ConnectAgentResponse& message, absl::Duration now);

  // The id of the request must be new. Refused at once while there is no server.
  Actions Request(const v1::LeaseRequest& request, absl::Duration now);
  // Of a lease granted to this node.
  Actions Open(const std::string& lease_id, int port, absl::Duration now);
  // The lease is over for this node at once, and `kEnded` does not follow.
  Actions Return(const std::string& lease_id, const std::string& failure_reason,
                 absl::Duration now);
  Actions SetBusy(bool is_busy, absl::Duration now);
  // The answer to `kLook`.
  Actions Looked(bool is_there_better, absl::Duration now);

  // Does what is due: heartbeats, renewals, local ends, attempts to connect, looks, moves.
  Actions Tick(absl::Duration now);
  // When to call `Tick`. Infinite before `Start`.
  absl::Duration NextDeadline() const;

  bool is_connected() const { return state_ == State::kConnected; }
  // Why the last stream ended, or why there was none; OK before the first end.
  const absl::Status& last_end() const { return last_end_; }

 private:
  enum class State { kOff, kWaiting, kConnecting, kConnected, kMoving };
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
  LeaseAction Connect(LeaseAction::Kind kind, absl::Duration now);
  absl::Duration NextLook(absl::Duration now) const;
  // When the stream is to move; infinite where it is not.
  absl::Duration MoveTime() const;

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
  // Of kConnected: when to look, infinite while somebody does, and what came of it last.
  absl::Duration next_look_;
  bool is_there_better_ = false;
  // What was said last must have gone out before the stream moves.
  absl::Duration earliest_move_;
  std::set<std::string> requests_;
  std::map<std::string, Held> leases_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_LEASE_LEASE_MACHINE_H_
