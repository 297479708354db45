// Keeps an agent connected to its server, and borrows nodes through it. The daemon's link probe
// owns it.

#ifndef PARPLAN_PROFILER_AGENT_LEASE_LEASE_AGENT_H_
#define PARPLAN_PROFILER_AGENT_LEASE_LEASE_AGENT_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/cpp/agent_client.h"
#include "clients/cpp/channel.h"
#include "parplan/v1/agent_service.pb.h"
#include "profiler-agent/lease/lease_machine.h"
#include "profiler-agent/replicas/replicas.h"

namespace parplan {

// The identity of the agent, its pauses, and what it calls.
struct LeaseAgentOptions {
  LeaseMachineOptions machine;
  // Callbacks, each of which may be empty. All are called in order from one thread of the agent and
  // must return soon. They may call any method of the agent except `Acquire`, and must not destroy
  // it.
  //
  // Another node's lease has begun on this node, which must join the lease's rendezvous.
  std::function<void(const v1::Lease&)> on_opened;
  // A lease from `Acquire` or `on_opened` is over for a reason other than this node's own `Return`:
  // the server ended it, its time is over by this agent's clock (LEASE_END_CAUSE_EXPIRED), or the
  // stream has ended (LEASE_END_CAUSE_AGENT_LOST). Whatever runs under it must stop. Called once
  // for a lease; for one of `Acquire` it may come before that has returned.
  std::function<void(const v1::LeaseEnd&)> on_ended;
  // The server at this address has welcomed the agent on a new stream.
  std::function<void(const std::string&)> on_connected;
};

// The nodes to borrow; see `LeaseRequest` of the contract.
struct LeaseWish {
  // Ids of the nodes in the order of ranks, this node among them. The server checks them: a wish
  // that it cannot grant is refused like any other.
  std::vector<std::string> node_ids;
  // Length of the lease, which the agent renews by itself until `Return`: the time after which the
  // server takes the nodes back if this agent disappears. Above 0; the server may cut it.
  absl::Duration duration = absl::Minutes(1);
  // Whether nodes that are busy (SetBusy) are borrowed too.
  bool even_if_busy = false;
  // Work for the other agents, at most 64 KiB: `Lease.task` of their `on_opened`. The server does
  // not read it.
  std::string task;
};

// An agent's connection to its server. Connects and reconnects by itself with three threads, which
// sleep while nothing happens. If the target names several replicas of a server, the agents of a
// cluster meet at one of them (Replicas): nodes connected to different replicas cannot be lent
// together. Safe to use from any thread.
//
//   LeaseAgent agent(server, options);
//   auto lease = agent.Acquire({.node_ids = {"n1", "n2"}}, absl::Seconds(10));
//   if (!lease.ok()) return lease.status();
//   agent.Open(lease->lease_id(), rendezvous_port);  // The other nodes join.
//   ...                                              // Work until done or `on_ended`.
//   agent.Return(lease->lease_id());
class LeaseAgent {
 public:
  // Begins to connect at once. Fills in an empty `instance_id` of the hello with a new UUID.
  LeaseAgent(ChannelOptions server, LeaseAgentOptions options);
  // Ends the stream and with it all leases of the node, without calling `on_ended` for them.
  // REQUIRES, unchecked: calls of other threads return before this does. `Acquire` then returns at
  // once, but this does not wait for it.
  ~LeaseAgent();

  LeaseAgent(const LeaseAgent&) = delete;
  LeaseAgent& operator=(const LeaseAgent&) = delete;

  // Asks for a lease, repeatedly while it is refused, and returns it. Pauses for the server's retry
  // time (1 s if it names none) or up to twice as long between requests. UNAVAILABLE without a
  // reason once `patience` is over before an answer, or would be before the next request, then with
  // the last refusal; a lease granted after that is returned to the server. While no server is
  // connected every request is refused. CANCELLED if the agent is being destroyed. Several threads
  // may ask at once.
  absl::StatusOr<v1::Lease> Acquire(const LeaseWish& wish, absl::Duration patience);
  // Opens a lease from `Acquire`: its other nodes join at this port of this node's host. Does
  // nothing once the lease is over.
  void Open(const std::string& lease_id, int rendezvous_port);
  // Gives a lease back; members of the lease may call it too. A reason says that the work failed.
  // Does nothing once the lease is over. An `on_ended` that is already on its way still comes.
  void Return(const std::string& lease_id, const std::string& failure_reason = "");

  // Sets whether a job runs on the node, which is then lent only to requests with `even_if_busy`.
  void SetBusy(bool is_busy);

  // Returns whether a server has welcomed the agent and its stream has not ended since.
  bool is_connected() const;
  // Returns why the last stream ended or could not begin; OK before the first such end.
  absl::Status last_end() const;

 private:
  using Answer = std::variant<v1::Lease, v1::LeaseRefusal>;
  enum class Wish { kNothing, kFirst, kNext };

  // Bodies of the three threads: reads the stream, performs actions, and checks for better
  // replicas.
  void Read();
  void Act();
  void Look();
  // Runs one stream from beginning to end and returns why it ended. Called on the reading thread.
  absl::Status ReadStream(const std::string& address);
  void Push(LeaseMachine::Actions actions);
  // Performs one action. Called on the acting thread, without the lock.
  void Do(const LeaseAction& action, const std::shared_ptr<AgentStream>& stream);

  const LeaseAgentOptions options_;
  Replicas replicas_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as are the members below.
  std::mt19937_64 random_;
  LeaseMachine machine_;
  std::deque<LeaseAction> queue_;
  std::shared_ptr<AgentStream> stream_;
  // Address of the present or last stream, and the number of streams so far.
  std::string server_;
  int64_t stream_number_ = 0;
  Wish stream_wish_ = Wish::kNothing;
  bool wants_look_ = false;
  bool is_ending_ = false;
  int64_t request_count_ = 0;
  // Answers by request id; absent until the request is answered.
  std::map<std::string, std::optional<Answer>> requests_;

  std::thread reader_;
  std::thread actor_;
  std::thread looker_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_LEASE_LEASE_AGENT_H_
