// Decides the agent's side of leases: which action follows an event or a deadline. Pure decisions;
// `LeaseAgent` owns the stream, the threads and the clock. `LeaseAgent` calls the methods one at a
// time.

#ifndef PARPLAN_PROFILER_AGENT_LEASE_LEASE_MACHINE_H_
#define PARPLAN_PROFILER_AGENT_LEASE_LEASE_MACHINE_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "clients/delivery/backoff.h"
#include "parplan/v1/agent_service.pb.h"

namespace parplan {

// The identity of the agent and its pauses. The values were chosen; none was measured.
struct LeaseMachineOptions {
  // Identity of the agent. `LeaseAgent` fills in an empty `instance_id`; this class does not.
  v1::AgentHello hello;
  // Pauses between attempts to connect. After a refusal (ALREADY_EXISTS, INVALID_ARGUMENT,
  // UNIMPLEMENTED, UNAUTHENTICATED, PERMISSION_DENIED) half of the longest pause up to all of it;
  // not after UNAUTHENTICATED on a stream that was welcomed, whose credential has expired.
  BackoffOptions backoff = {.first_pause = absl::Seconds(1), .longest_pause = absl::Minutes(1)};
  // Pause after ALREADY_EXISTS in the first `former_time` of such refusals in a row. The other
  // agent of this node is most likely this one before its host was started again, and the server
  // takes it for present until it has been silent for about 50 s.
  absl::Duration former_pause = absl::Seconds(5);
  absl::Duration former_time = absl::Minutes(2);
  // Longest wait for the server's welcome.
  absl::Duration connect_patience = absl::Seconds(30);
  // Interval between checks for a replica that precedes the present one in the agent's order; each
  // interval is randomly up to a quarter shorter or longer.
  absl::Duration look_interval = absl::Minutes(3);
};

// Something that the owner of the machine must do now.
struct LeaseAction {
  enum class Kind {
    // Begin a stream to the preferred replica, begin one to the replica after the one that has just
    // failed, or end the present stream. The end of a stream is reported by `StreamEnded`.
    kConnect,
    kConnectNext,
    kDisconnect,
    // Check whether a replica that precedes this one serves, and report it by `Looked`.
    kLook,
    kSend,
    // The stream has begun.
    kWelcomed,
    // The server granted or refused a request.
    kGranted,
    kRefused,
    // Another node's lease has begun on this node.
    kOpened,
    // A lease that was granted or opened is over.
    kEnded,
  };

  Kind kind = Kind::kConnect;
  v1::ConnectAgentRequest message;  // For kSend.
  v1::Lease lease;                  // For kGranted and kOpened.
  v1::LeaseRefusal refusal;         // For kRefused.
  v1::LeaseEnd end;                 // For kEnded.
};

// A state machine with these invariants: there is at most one stream; every request gets exactly
// one answer; every lease that was granted or opened ends exactly once, at the latest when its time
// is over by the agent's own clock or when the stream ends, whatever the server does. Replicas are
// tried in turn without a pause, until all have failed or one refuses the agent, since all would.
// The stream moves to a better replica only while the node neither holds nor requests a lease.
//
// `now` is the time of a clock that is never set, since any moment that stays the same, and must
// never decrease. Not thread-safe.
class LeaseMachine {
 public:
  using Actions = std::vector<LeaseAction>;

  // `random` returns numbers from 0 to 1; it is called within the methods below.
  LeaseMachine(LeaseMachineOptions options, std::function<double()> random);

  // Each of these returns the actions to perform, in order. `Start` begins to connect; a second
  // call does nothing.
  Actions Start(absl::Duration now);
  // Reports the end of the stream. `has_next` says that there is another replica to try.
  Actions StreamEnded(const absl::Status& status, absl::Duration now, bool has_next = false);
  // Handles a message of the server; ignores kinds of later releases.
  Actions Received(const v1::ConnectAgentResponse& message, absl::Duration now);

  // Requests a lease. REQUIRES, unchecked: the request's id is new. Refused at once while no server
  // is connected.
  Actions Request(const v1::LeaseRequest& request, absl::Duration now);
  // Opens a lease that was granted to this node; ignores one that another node's request opened.
  // This and `Return` ignore a lease that is over.
  Actions Open(const std::string& lease_id, int port, absl::Duration now);
  // Gives a lease back. It is over for this node at once, and no `kEnded` follows.
  Actions Return(const std::string& lease_id, const std::string& failure_reason,
                 absl::Duration now);
  // Sets whether a job runs on the node; at first as `hello` says.
  Actions SetBusy(bool is_busy, absl::Duration now);
  // Reports the result of `kLook`.
  Actions Looked(bool is_there_better, absl::Duration now);

  // Does everything that is due: heartbeats, renewals, ends of leases, attempts to connect, checks
  // for better replicas, and moves to one.
  Actions Tick(absl::Duration now);
  // Returns when to call `Tick` next, which may be in the past; infinite before `Start`. Ask again
  // after every other call, since each may change it.
  absl::Duration NextDeadline() const;

  // Returns whether the server has welcomed the agent and the stream has not ended since.
  bool is_connected() const { return state_ == State::kConnected; }
  // Returns why the last stream ended or could not begin; OK before the first end.
  const absl::Status& last_end() const { return last_end_; }

 private:
  enum class State { kOff, kWaiting, kConnecting, kConnected, kMoving };
  struct Held {
    bool is_host = false;
    absl::Duration length;  // Granted length, asked for again on renewal.
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
  // Returns the pause after an end of the stream, or a failure to begin one, with `status`.
  absl::Duration PauseAfter(const absl::Status& status, absl::Duration now);
  absl::Duration NextLook(absl::Duration now) const;
  // Returns when the stream is to move to another replica; infinite if it is not.
  absl::Duration MoveTime() const;

  const LeaseMachineOptions options_;
  const std::function<double()> random_;
  const std::string node_id_;

  State state_ = State::kOff;
  bool is_busy_ = false;
  int failure_count_ = 0;
  // When the refusals with ALREADY_EXISTS since the last other outcome began.
  std::optional<absl::Duration> first_conflict_;
  absl::Status last_end_;
  // In kWaiting, the time to connect. In kConnecting, the time to give up.
  absl::Duration deadline_;
  absl::Duration heartbeat_;  // Interval between heartbeats.
  absl::Duration next_heartbeat_;
  // In kConnected, the time of the next check for a better replica (infinite during one), and the
  // result of the last.
  absl::Duration next_look_;
  bool is_there_better_ = false;
  // Earliest time to move, so that the last messages have been sent.
  absl::Duration earliest_move_;
  std::set<std::string> requests_;
  std::map<std::string, Held> leases_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_LEASE_LEASE_MACHINE_H_
