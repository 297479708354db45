// Decides which agents are connected and which nodes are lent. Pure: values and the time go in,
// messages for connections come out (docs/adr/0010). `AgentCore` owns one and calls it under its
// lock.

#ifndef PARPLAN_SERVER_CORE_LEASE_KEEPER_H_
#define PARPLAN_SERVER_CORE_LEASE_KEEPER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/core/limits.h"
#include "server/core/observer.h"

namespace parplan {

// Number of an agent's stream. Chosen by the caller, never used twice; `AgentCore` counts from 1.
using AgentConnection = int64_t;

// The facts an agent gives about itself, read from `AgentHello` of the contract: `instance` is new
// with every start of the agent, `release` names its program and version, others reach its ranks at
// `host`, `fingerprint` changes with its hardware. `cluster` and `node` are ids without prefixes;
// `device_kind` and `device_count` are those of the node.
struct AgentFacts {
  std::string cluster;
  std::string node;
  std::string instance;
  std::string release;
  std::string host;
  std::string device_kind;
  int device_count = 1;
  std::string fingerprint;
};

// Nodes that are lent together, so that their agents can do one measurement as the ranks of one
// job. The node that asked is the host.
struct NodeLease {
  struct Node {
    AgentConnection connection = 0;
    AgentFacts facts;
  };

  // The id and the secret (`token`) that were given to `LeaseKeeper::Request`, and the `request_id`
  // and `task` of the question. The task is for the other agents; the server does not read it.
  std::string id;
  std::string request_id;
  std::string token;
  std::string task;
  // In the order of the request.
  std::vector<Node> nodes;
  // Index in `nodes` of the node that asked.
  int host = 0;
  // Port on the host where ranks meet; 0 until the lease is opened.
  int rendezvous_port = 0;
  // On the clock whose `now` the keeper is given.
  absl::Duration start;
  absl::Duration end;

  // Returns the connection of the agent that asked for the lease.
  AgentConnection host_connection() const { return nodes[host].connection; }
};

// A message for one connection, or its end. Only the host hears of a lease that is not open yet,
// first by `kGranted`; the other nodes hear of it from `kOpened` on.
struct LeaseNews {
  // The host has the lease and is to open it; the lease is open; it lasts longer; it has ended; or
  // the connection itself shall end.
  enum class Kind { kGranted, kOpened, kRenewed, kEnded, kDisconnected };

  AgentConnection to = 0;
  Kind kind = Kind::kGranted;
  // Set for all kinds except `kDisconnected`.
  NodeLease lease;
  // Set for `kEnded`. `node` is empty if no node is the cause.
  LeaseOutcome outcome = LeaseOutcome::kReturned;
  std::string node;
  std::string detail;
  // Set for `kDisconnected`.
  absl::Status status;
};

// The refusal of a lease: its cause, the id of the node at fault, a sentence for people, and after
// how long to ask again.
struct LeaseRefused {
  LeaseRefusalKind kind = LeaseRefusalKind::kNodeAbsent;
  std::string node;
  std::string detail;
  absl::Duration retry;
};

// A request for a lease, read and checked (`ReadLeaseRequest`).
struct LeaseQuestion {
  // Chosen by the agent that asks, which knows the answer by it.
  std::string request_id;
  // Ids of the nodes in the order in which their ranks are numbered: 1 to
  // `Limits::max_lease_node_count`, none twice, that of the agent that asks among them.
  std::vector<std::string> nodes;
  // 0 for `kDefaultLease`; not negative.
  absl::Duration duration;
  // Whether nodes are lent on which a job runs, that of the agent that asks included.
  bool even_if_busy = false;
  // Handed to all nodes of the lease, unread; at most 64 KiB (`ReadLeaseRequest`).
  std::string task;
};

// A connected agent, for lists.
struct ConnectedAgent {
  AgentFacts facts;
  // Whether the agent says that its node is busy, for how long it has been connected, and how long
  // ago it last sent a message.
  bool is_busy = false;
  absl::Duration connected_for;
  absl::Duration silent_for;
  std::string lease_id;  // Empty if the node is in no lease.
};

// Holds at any time: a node is connected once and in at most one lease; all nodes of a lease are
// connected; a lease ends at most `max_lease_duration` after its grant, provided that `Tick` is
// called at `NextDeadline`; each node that was notified of a lease is notified of its end, once.
//
// `now` must never decrease. Not thread-safe.
class LeaseKeeper {
 public:
  using News = std::vector<LeaseNews>;

  // Duration of a lease for which the agent names none. Not measured.
  static constexpr absl::Duration kDefaultLease = absl::Minutes(1);

  explicit LeaseKeeper(const Limits& limits) : limits_(limits) {}

  // Adds an agent. An agent that connects again (same instance), or as a node whose agent is
  // silent, replaces the earlier connection, whose lease ends; the news end it. ALREADY_EXISTS
  // (AGENT_CONNECTED) if another agent that is not silent is connected as this node: the one that
  // is connected stays, so that two machines with one name do not replace each other in turn.
  // RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE) at `Limits::max_agent_count`, and (QUOTA_EXCEEDED) at the
  // quotas of the cluster and of `holder`, the identity of the agent; empty for one without quotas.
  // An agent that replaces a connection needs no room. REQUIRES: `connection` was never used
  // before; aborts if it is connected.
  absl::StatusOr<News> Connect(AgentConnection connection, const AgentFacts& facts, bool is_busy,
                               absl::Duration now, const std::string& holder = "");
  // Removes the agent of a stream that ended. Does nothing if it is not known, or not any more.
  News Disconnect(AgentConnection connection);
  // Records a sign of life; every message is one. Does nothing for a connection that is not known.
  void Heard(AgentConnection connection, absl::Duration now);
  // Records whether a job runs on the node of the agent. Changes no lease; does nothing for a
  // connection that is not known.
  void SetBusy(AgentConnection connection, bool is_busy);

  // Lends all nodes of the question, which are of the agent's cluster, or none, under the id and
  // the secret given, for the duration of the question, at most `max_lease_duration`. A refusal
  // names the first node, in the order of the question, that is absent, lent or busy. Returns
  // nothing to send if the connection is not known any more, INVALID_ARGUMENT (SPEC_INVALID) naming
  // the field of `request_lease` if the question breaks a rule. REQUIRES: `lease_id` was never used
  // before; aborts if it is in use.
  absl::StatusOr<std::variant<News, LeaseRefused>> Request(AgentConnection connection,
                                                           const LeaseQuestion& question,
                                                           const std::string& lease_id,
                                                           const std::string& token,
                                                           absl::Duration now);
  // Open, renew and end a lease. INVALID_ARGUMENT (SPEC_INVALID) for a port outside 1 to 65535 or a
  // duration that is not above 0. Else nothing happens if the lease does not exist: it may have
  // ended while the message was on its way. INVALID_ARGUMENT (SPEC_INVALID) from a node that may
  // not do this: only the host opens, once, and renews; any node of the lease returns it. A renewed
  // lease ends `duration` from now, but at most `max_lease_duration` after its grant; one that is
  // over already ends at once. `Return` ends the lease as `kReturned` if its host gives no reason
  // of failure (an empty text), otherwise as `kGivenUp`.
  absl::StatusOr<News> Open(AgentConnection connection, const std::string& lease_id, int port);
  absl::StatusOr<News> Renew(AgentConnection connection, const std::string& lease_id,
                             absl::Duration duration, absl::Duration now);
  absl::StatusOr<News> Return(AgentConnection connection, const std::string& lease_id,
                              const std::string& failure_reason);

  // Ends leases that are over at `now`, and connections that were silent for too long.
  News Tick(absl::Duration now);
  // Returns when to call `Tick`; absent while there is no deadline.
  std::optional<absl::Duration> NextDeadline() const;

  // Ends all leases as `kDraining`, with `detail` for people, and all connections with `status`.
  News Close(const absl::Status& status, const std::string& detail);

  // Lists the agents of a cluster by node.
  std::vector<ConnectedAgent> List(const std::string& cluster, absl::Duration now) const;
  // Return the numbers of connected agents and of leases in all clusters.
  int agent_count() const { return static_cast<int>(agents_.size()); }
  int lease_count() const { return static_cast<int>(leases_.size()); }

 private:
  struct AgentEntry {
    AgentFacts facts;
    std::string holder;
    bool is_busy = false;
    absl::Duration connected;
    absl::Duration heard;
    std::string lease_id;
  };

  // Returns the error if another agent would exceed a quota.
  absl::Status CheckQuotas(const std::string& cluster, const std::string& holder) const;

  std::optional<LeaseRefused> FindObstacle(const std::string& cluster,
                                           const LeaseQuestion& question) const;
  absl::Status CheckQuestion(const AgentEntry& asking, const LeaseQuestion& question) const;
  // Returns the lease, or null if there is none. The connection must be in it, and be its host if
  // `as_host`.
  absl::StatusOr<NodeLease*> Find(AgentConnection connection, const std::string& lease_id,
                                  bool as_host, const char* field);
  void NotifyAll(const NodeLease& lease, LeaseNews::Kind kind, News& news) const;
  void EndLease(const std::string& lease_id, LeaseOutcome outcome, const std::string& node,
                const std::string& detail, News& news);
  // Removes an agent, its leases first. Its stream ends with `farewell` unless that is OK.
  void Remove(AgentConnection connection, const std::string& detail, const absl::Status& farewell,
              News& news);

  const Limits limits_;
  std::map<AgentConnection, AgentEntry> agents_;
  // By cluster and node.
  std::map<std::pair<std::string, std::string>, AgentConnection> by_node_;
  std::map<std::string, NodeLease> leases_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_LEASE_KEEPER_H_
