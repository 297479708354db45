// Keeps an agent connected to its server, and borrows nodes from it.

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

struct LeaseAgentOptions {
  LeaseMachineOptions machine;
  // All are called from one thread of the agent, in order, and must return soon; they may
  // call anything of the agent but `Acquire` and its end.
  // Another node's lease has begun here: join its rendezvous.
  std::function<void(const v1::Lease&)> on_opened;
  // A lease that `Acquire` gave or `on_opened` told is over, but by `Return` of this node:
  // stop what runs under it.
  std::function<void(const v1::LeaseEnd&)> on_ended;
  // A stream has begun, to the server at this address.
  std::function<void(const std::string&)> on_connected;
};

// What to ask for; see `LeaseRequest` of the contract.
struct LeaseWish {
  // In the order of ranks, this node among them.
  std::vector<std::string> node_ids;
  // The lease is renewed as long as it is held; this is how soon it ends when this agent is
  // lost without a word.
  absl::Duration duration = absl::Minutes(1);
  bool even_if_busy = false;
  std::string task;
};

// Three threads, which sleep while nothing happens. Connects and connects anew by itself. Where
// the target names several replicas of a server, agents of a cluster come together at one of
// them (Replicas): nodes at different ones are not lent together. Safe to use from any thread.
class LeaseAgent {
 public:
  // Begins at once.
  LeaseAgent(ChannelOptions server, LeaseAgentOptions options);
  // Ends the stream, and with it all leases of the node; `on_ended` is not called for those.
  ~LeaseAgent();

  LeaseAgent(const LeaseAgent&) = delete;
  LeaseAgent& operator=(const LeaseAgent&) = delete;

  // The lease that was granted; `Open` it when its rendezvous listens, and `Return` it. Asks
  // again while it is refused, for as long as `patience`; then UNAVAILABLE with the last
  // refusal. One that is granted later is given back.
  absl::StatusOr<v1::Lease> Acquire(const LeaseWish& wish, absl::Duration patience);
  void Open(const std::string& lease_id, int rendezvous_port);
  // With an empty reason all is done; else the lease is given up. Also for members.
  void Return(const std::string& lease_id, const std::string& failure_reason = "");

  // Whether a job runs on the node.
  void SetBusy(bool is_busy);

  bool is_connected() const;
  // Why the last stream ended; OK before the first end.
  absl::Status last_end() const;

 private:
  using Answer = std::variant<v1::Lease, v1::LeaseRefusal>;
  enum class Wish { kNothing, kFirst, kNext };

  // What the threads do.
  void Read();
  void Act();
  void Look();
  // Takes one stream from its beginning to its end, and says why it ended. Of the reading
  // thread.
  absl::Status ReadStream(const std::string& address);
  void Push(LeaseMachine::Actions actions);
  // Of the acting thread, without the lock.
  void Do(const LeaseAction& action, const std::shared_ptr<AgentStream>& stream);

  const LeaseAgentOptions options_;
  Replicas replicas_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as the rest.
  std::mt19937_64 random_;
  LeaseMachine machine_;
  std::deque<LeaseAction> queue_;
  std::shared_ptr<AgentStream> stream_;
  // Of the stream that is, or was last: where to, and how many there were with it.
  std::string server_;
  int64_t stream_number_ = 0;
  Wish stream_wish_ = Wish::kNothing;
  bool wants_look_ = false;
  bool is_ending_ = false;
  int64_t request_count_ = 0;
  // By request: absent until it is answered.
  std::map<std::string, std::optional<Answer>> requests_;

  std::thread reader_;
  std::thread actor_;
  std::thread looker_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_LEASE_LEASE_AGENT_H_
