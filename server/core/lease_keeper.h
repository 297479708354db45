// Which agents are connected and which nodes are lent: decisions only. Values and the
// time come in, what to tell whom comes out; docs/adr/0010 says why it is so.

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

// A stream of an agent. Chosen by the caller, never used twice.
using AgentConnection = int64_t;

// Who an agent says it is; see `AgentHello` of the contract.
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

// Nodes that are lent together.
struct NodeLease {
  struct Node {
    AgentConnection connection = 0;
    AgentFacts facts;
  };

  std::string id;
  std::string request_id;
  std::string token;
  std::string task;
  // In the order asked for.
  std::vector<Node> nodes;
  // Of `nodes`: the one that asked.
  int host = 0;
  // Where ranks meet; 0 until the lease is opened.
  int rendezvous_port = 0;
  // On the caller's clock.
  absl::Duration start;
  absl::Duration end;

  AgentConnection host_connection() const { return nodes[host].connection; }
};

// What one connection is to be told, or that it is over.
struct LeaseNews {
  enum class Kind { kGranted, kOpened, kRenewed, kEnded, kDisconnected };

  AgentConnection to = 0;
  Kind kind = Kind::kGranted;
  // Of all kinds but `kDisconnected`.
  NodeLease lease;
  // Of `kEnded`. `node` is empty where no node is the cause.
  LeaseOutcome outcome = LeaseOutcome::kReturned;
  std::string node;
  std::string detail;
  // Of `kDisconnected`.
  absl::Status status;
};

struct LeaseRefused {
  LeaseRefusalKind kind = LeaseRefusalKind::kNodeAbsent;
  std::string node;
  std::string detail;
  absl::Duration retry;
};

struct LeaseQuestion {
  std::string request_id;
  std::vector<std::string> nodes;
  // Zero: the default.
  absl::Duration duration;
  bool even_if_busy = false;
  std::string task;
};

// A connected agent, for lists.
struct ConnectedAgent {
  AgentFacts facts;
  bool is_busy = false;
  absl::Duration connected_for;
  absl::Duration silent_for;
  std::string lease_id;  // Empty: in none.
};

// What holds at any time: a node is connected once and in at most one lease; all nodes
// of a lease are connected; a lease ends by `max_lease_duration` after its grant at the
// latest, provided somebody calls `Tick` at `NextDeadline`; each node that heard of it is
// told of its end once.
//
// `now` is a time that never goes back. Not safe to use from several threads.
class LeaseKeeper {
 public:
  using News = std::vector<LeaseNews>;

  static constexpr absl::Duration kDefaultLease = absl::Minutes(1);

  explicit LeaseKeeper(const Limits& limits) : limits_(limits) {}

  // ALREADY_EXISTS (AGENT_CONNECTED) when another agent that is not silent is connected as
  // this node: whoever is there stays, so that two machines with one name do not push
  // each other out in turn. The same instance takes the place of its earlier connection,
  // whose leases end. RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE) when as many are there as may
  // be.
  absl::StatusOr<News> Connect(AgentConnection connection, const AgentFacts& facts, bool is_busy,
                               absl::Duration now);
  // The stream is over. Nothing happens when it is not known (any more).
  News Disconnect(AgentConnection connection);
  // A sign of life; every message is one.
  void Heard(AgentConnection connection, absl::Duration now);
  void SetBusy(AgentConnection connection, bool is_busy);

  // All nodes or none. The lease has the name and the secret given. INVALID_ARGUMENT
  // (SPEC_INVALID) naming the field of `request_lease`.
  absl::StatusOr<std::variant<News, LeaseRefused>> Request(AgentConnection connection,
                                                           const LeaseQuestion& question,
                                                           const std::string& lease_id,
                                                           const std::string& token,
                                                           absl::Duration now);
  // These say nothing of a lease that is not there: it may have ended while they were on
  // their way. INVALID_ARGUMENT (SPEC_INVALID) from a node that may not do this.
  absl::StatusOr<News> Open(AgentConnection connection, const std::string& lease_id, int port);
  absl::StatusOr<News> Renew(AgentConnection connection, const std::string& lease_id,
                             absl::Duration duration, absl::Duration now);
  absl::StatusOr<News> Return(AgentConnection connection, const std::string& lease_id,
                              const std::string& failure_reason);

  // Ends what is over at `now`: leases, and connections that were silent too long.
  News Tick(absl::Duration now);
  // When to call `Tick`; absent while there is nothing to wait for.
  std::optional<absl::Duration> NextDeadline() const;

  // Ends all leases and connections with `status`.
  News Close(const absl::Status& status, const std::string& detail);

  std::vector<ConnectedAgent> List(const std::string& cluster, absl::Duration now) const;
  int agent_count() const { return static_cast<int>(agents_.size()); }
  int lease_count() const { return static_cast<int>(leases_.size()); }

 private:
  struct AgentEntry {
    AgentFacts facts;
    bool is_busy = false;
    absl::Duration connected;
    absl::Duration heard;
    std::string lease_id;
  };

  std::optional<LeaseRefused> FindObstacle(const std::string& cluster,
                                           const LeaseQuestion& question) const;
  absl::Status CheckQuestion(const AgentEntry& asking, const LeaseQuestion& question) const;
  // The lease, when it is there; the connection must be in it, and its host if `as_host`.
  absl::StatusOr<NodeLease*> Find(AgentConnection connection, const std::string& lease_id,
                                  bool as_host, const char* field);
  void TellAll(const NodeLease& lease, LeaseNews::Kind kind, News& news) const;
  void EndLease(const std::string& lease_id, LeaseOutcome outcome, const std::string& node,
                const std::string& detail, News& news);
  // Takes an agent out, its leases first. It hears `farewell` unless that is OK.
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
