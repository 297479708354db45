#include "server/core/lease_keeper.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/core/quota_error.h"
#include "server/core/request_rules.h"

namespace parplan {
namespace {

// When to ask again: half a minute for a node that is away or runs a job, since both last; at most
// two seconds for a node that is lent, since probes are short. Not measured: shorter waits cost
// messages, longer ones idle nodes.
constexpr absl::Duration kSlowRetry = absl::Seconds(30);
constexpr absl::Duration kFastRetry = absl::Seconds(2);

constexpr char kTimeOver[] = "the time of the lease was over";

// Returns whether the node was notified of the lease: before it is opened, only its host was.
bool HasHeard(const NodeLease& lease, const NodeLease::Node& node) {
  return lease.rendezvous_port != 0 || node.connection == lease.host_connection();
}

absl::Status ConnectedElsewhere(absl::StatusCode code, const AgentFacts& facts,
                                absl::string_view what) {
  return MakeError(code, Reason::kAgentConnected,
                   absl::StrCat("an agent on ", facts.host, " is connected as node ", facts.node,
                                " of cluster ", facts.cluster, "; ", what),
                   {{"node", facts.node}, {"host", facts.host}});
}

}  // namespace

absl::StatusOr<LeaseKeeper::News> LeaseKeeper::Connect(AgentConnection connection,
                                                       const AgentFacts& facts, bool is_busy,
                                                       absl::Duration now,
                                                       const std::string& holder) {
  PARPLAN_CHECK(agents_.count(connection) == 0);
  News news;
  const auto key = std::make_pair(facts.cluster, facts.node);
  if (const auto found = by_node_.find(key); found != by_node_.end()) {
    const AgentEntry& earlier = agents_.at(found->second);
    const bool is_silent = now - earlier.heard >= limits_.longest_agent_silence;
    if (earlier.facts.instance != facts.instance && !is_silent) {
      return ConnectedElsewhere(absl::StatusCode::kAlreadyExists, earlier.facts,
                                "stop one of the two, or give them different names");
    }
    Remove(found->second, "has connected anew",
           ConnectedElsewhere(absl::StatusCode::kAborted, facts, "this stream was the earlier one"),
           news);
  } else if (agent_count() >= limits_.max_agent_count) {
    return WithRetryDelay(
        MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                  "as many agents are connected as may be; use another server for a part of "
                  "the clusters",
                  {{"limit", absl::StrCat(limits_.max_agent_count)},
                   {"value", absl::StrCat(agent_count() + 1)}}),
        kSlowRetry);
  } else {
    PARPLAN_RETURN_IF_ERROR(CheckQuotas(facts.cluster, holder));
  }
  agents_[connection] = {
      .facts = facts, .holder = holder, .is_busy = is_busy, .connected = now, .heard = now};
  by_node_[key] = connection;
  return news;
}

absl::Status LeaseKeeper::CheckQuotas(const std::string& cluster, const std::string& holder) const {
  int of_cluster = 1;
  int of_holder = 1;
  for (const auto& [connection, agent] : agents_) {
    if (agent.facts.cluster == cluster) ++of_cluster;
    if (agent.holder == holder) ++of_holder;
  }
  const int holder_limit = limits_.identity_quota.agent_count;
  if (!holder.empty() && holder_limit > 0 && of_holder > holder_limit) {
    return QuotaError({.quota = "identity.agents",
                       .holder = holder,
                       .limit = holder_limit,
                       .value = of_holder,
                       .retry = kSlowRetry},
                      "give the agents certificates of their own, or raise the quota");
  }
  const int cluster_limit = limits_.cluster_quota.agent_count;
  if (cluster_limit > 0 && of_cluster > cluster_limit) {
    return QuotaError({.quota = "cluster.agents",
                       .holder = cluster,
                       .limit = cluster_limit,
                       .value = of_cluster,
                       .retry = kSlowRetry},
                      "stop agents of nodes that are gone, or raise the quota");
  }
  return absl::OkStatus();
}

LeaseKeeper::News LeaseKeeper::Disconnect(AgentConnection connection) {
  News news;
  if (agents_.count(connection) > 0) {
    Remove(connection, "is no longer connected", absl::OkStatus(), news);
  }
  return news;
}

void LeaseKeeper::Heard(AgentConnection connection, absl::Duration now) {
  if (const auto found = agents_.find(connection); found != agents_.end()) {
    found->second.heard = now;
  }
}

void LeaseKeeper::SetBusy(AgentConnection connection, bool is_busy) {
  if (const auto found = agents_.find(connection); found != agents_.end()) {
    found->second.is_busy = is_busy;
  }
}

absl::Status LeaseKeeper::CheckQuestion(const AgentEntry& asking,
                                        const LeaseQuestion& question) const {
  if (question.nodes.empty()) return RequestError("request_lease.node_ids", "must not be empty");
  if (static_cast<int>(question.nodes.size()) > limits_.max_lease_node_count) {
    return RequestError("request_lease.node_ids",
                        absl::StrCat("must be at most ", limits_.max_lease_node_count, " nodes"));
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < question.nodes.size(); ++i) {
    if (!seen.insert(question.nodes[i]).second) {
      return RequestError(absl::StrCat("request_lease.node_ids[", i, "]"), "is there already");
    }
  }
  if (seen.count(asking.facts.node) == 0) {
    return RequestError("request_lease.node_ids",
                        absl::StrCat("must have the agent's own node, ", asking.facts.node));
  }
  if (question.duration < absl::ZeroDuration()) {
    return RequestError("request_lease.duration", "must be above 0, or absent");
  }
  return absl::OkStatus();
}

std::optional<LeaseRefused> LeaseKeeper::FindObstacle(const std::string& cluster,
                                                      const LeaseQuestion& question) const {
  for (const std::string& node : question.nodes) {
    const auto found = by_node_.find({cluster, node});
    if (found == by_node_.end()) {
      return LeaseRefused{LeaseRefusalKind::kNodeAbsent, node,
                          absl::StrCat("no agent is connected to this server as node ", node,
                                       "; start one there (of several servers, agents of a "
                                       "cluster use the same one), or leave the node out"),
                          kSlowRetry};
    }
    const AgentEntry& agent = agents_.at(found->second);
    if (!agent.lease_id.empty()) {
      return LeaseRefused{LeaseRefusalKind::kNodeLent, node,
                          absl::StrCat("node ", node, " is in another lease; ask again later"),
                          kFastRetry};
    }
    if (agent.is_busy && !question.even_if_busy) {
      return LeaseRefused{LeaseRefusalKind::kNodeBusy, node,
                          absl::StrCat("a job runs on node ", node, "; ask when it has ended"),
                          kSlowRetry};
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::variant<LeaseKeeper::News, LeaseRefused>> LeaseKeeper::Request(
    AgentConnection connection, const LeaseQuestion& question, const std::string& lease_id,
    const std::string& token, absl::Duration now) {
  using Answer = std::variant<News, LeaseRefused>;
  const auto found = agents_.find(connection);
  // The keeper ended the connection while the request was on its way.
  if (found == agents_.end()) return Answer(News());
  const AgentEntry& asking = found->second;
  PARPLAN_RETURN_IF_ERROR(CheckQuestion(asking, question));
  if (const auto obstacle = FindObstacle(asking.facts.cluster, question)) return Answer(*obstacle);
  NodeLease lease;
  lease.id = lease_id;
  lease.request_id = question.request_id;
  lease.token = token;
  lease.task = question.task;
  lease.start = now;
  const absl::Duration duration =
      question.duration > absl::ZeroDuration() ? question.duration : kDefaultLease;
  lease.end = now + std::min(duration, limits_.max_lease_duration);
  for (const std::string& node : question.nodes) {
    const AgentConnection member = by_node_.at({asking.facts.cluster, node});
    if (member == connection) lease.host = static_cast<int>(lease.nodes.size());
    agents_.at(member).lease_id = lease_id;
    lease.nodes.push_back({member, agents_.at(member).facts});
  }
  const bool is_new = leases_.emplace(lease_id, lease).second;
  PARPLAN_CHECK(is_new);
  return Answer(News{{.to = connection, .kind = LeaseNews::Kind::kGranted, .lease = lease}});
}

absl::StatusOr<NodeLease*> LeaseKeeper::Find(AgentConnection connection,
                                             const std::string& lease_id, bool as_host,
                                             const char* field) {
  const auto found = leases_.find(lease_id);
  if (found == leases_.end()) return nullptr;
  NodeLease& lease = found->second;
  if (as_host && lease.host_connection() == connection) return &lease;
  const auto is_member = [&](const NodeLease::Node& node) { return node.connection == connection; };
  if (!as_host && std::any_of(lease.nodes.begin(), lease.nodes.end(), is_member)) return &lease;
  return RequestError(field, as_host ? "must be a lease that was granted to this node"
                                     : "must be a lease that this node is in");
}

absl::StatusOr<LeaseKeeper::News> LeaseKeeper::Open(AgentConnection connection,
                                                    const std::string& lease_id, int port) {
  if (port < 1 || port > 65535) {
    return RequestError("open_lease.rendezvous_port", "must be a port, 1 to 65535");
  }
  News news;
  PARPLAN_ASSIGN_OR_RETURN(NodeLease* const lease,
                           Find(connection, lease_id, true, "open_lease.lease_id"));
  if (lease == nullptr) return news;
  if (lease->rendezvous_port != 0) {
    return RequestError("open_lease.lease_id", "must be a lease that is not open yet");
  }
  lease->rendezvous_port = port;
  NotifyAll(*lease, LeaseNews::Kind::kOpened, news);
  return news;
}

absl::StatusOr<LeaseKeeper::News> LeaseKeeper::Renew(AgentConnection connection,
                                                     const std::string& lease_id,
                                                     absl::Duration duration, absl::Duration now) {
  if (duration <= absl::ZeroDuration())
    return RequestError("renew_lease.duration", "must be above 0");
  News news;
  PARPLAN_ASSIGN_OR_RETURN(NodeLease* const lease,
                           Find(connection, lease_id, true, "renew_lease.lease_id"));
  if (lease == nullptr) return news;
  if (lease->end <= now) {
    EndLease(lease_id, LeaseOutcome::kExpired, "", kTimeOver, news);
    return news;
  }
  lease->end = std::min(now + duration, lease->start + limits_.max_lease_duration);
  NotifyAll(*lease, LeaseNews::Kind::kRenewed, news);
  return news;
}

absl::StatusOr<LeaseKeeper::News> LeaseKeeper::Return(AgentConnection connection,
                                                      const std::string& lease_id,
                                                      const std::string& failure_reason) {
  News news;
  PARPLAN_ASSIGN_OR_RETURN(NodeLease* const lease,
                           Find(connection, lease_id, false, "return_lease.lease_id"));
  if (lease == nullptr) return news;
  const std::string node = agents_.at(connection).facts.node;
  if (failure_reason.empty() && lease->host_connection() == connection) {
    EndLease(lease_id, LeaseOutcome::kReturned, node,
             absl::StrCat("node ", node, " has given the lease back"), news);
  } else {
    EndLease(lease_id, LeaseOutcome::kGivenUp, node,
             absl::StrCat("node ", node, " has given the lease up: ",
                          failure_reason.empty() ? "it said not why" : failure_reason),
             news);
  }
  return news;
}

LeaseKeeper::News LeaseKeeper::Tick(absl::Duration now) {
  News news;
  std::vector<std::string> over;
  for (const auto& [id, lease] : leases_) {
    if (lease.end <= now) over.push_back(id);
  }
  for (const std::string& id : over) {
    EndLease(id, LeaseOutcome::kExpired, "", kTimeOver, news);
  }
  std::vector<AgentConnection> silent;
  for (const auto& [connection, agent] : agents_) {
    if (now - agent.heard >= limits_.longest_agent_silence) silent.push_back(connection);
  }
  for (const AgentConnection connection : silent) {
    Remove(connection, "gives no sign of life",
           absl::DeadlineExceededError(
               absl::StrCat("no message for ", absl::FormatDuration(limits_.longest_agent_silence),
                            "; connect anew")),
           news);
  }
  return news;
}

std::optional<absl::Duration> LeaseKeeper::NextDeadline() const {
  std::optional<absl::Duration> next;
  const auto consider = [&](absl::Duration time) {
    if (!next.has_value() || time < *next) next = time;
  };
  for (const auto& [id, lease] : leases_) consider(lease.end);
  for (const auto& [id, agent] : agents_) consider(agent.heard + limits_.longest_agent_silence);
  return next;
}

LeaseKeeper::News LeaseKeeper::Close(const absl::Status& status, const std::string& detail) {
  News news;
  while (!leases_.empty()) {
    const std::string id = leases_.begin()->first;
    EndLease(id, LeaseOutcome::kDraining, "", detail, news);
  }
  while (!agents_.empty()) Remove(agents_.begin()->first, detail, status, news);
  return news;
}

std::vector<ConnectedAgent> LeaseKeeper::List(const std::string& cluster,
                                              absl::Duration now) const {
  std::vector<ConnectedAgent> list;
  for (auto entry = by_node_.lower_bound({cluster, ""});
       entry != by_node_.end() && entry->first.first == cluster; ++entry) {
    const AgentEntry& agent = agents_.at(entry->second);
    list.push_back({.facts = agent.facts,
                    .is_busy = agent.is_busy,
                    .connected_for = now - agent.connected,
                    .silent_for = now - agent.heard,
                    .lease_id = agent.lease_id});
  }
  return list;
}

void LeaseKeeper::NotifyAll(const NodeLease& lease, LeaseNews::Kind kind, News& news) const {
  for (const NodeLease::Node& node : lease.nodes) {
    if (!HasHeard(lease, node)) continue;
    news.push_back({.to = node.connection, .kind = kind, .lease = lease});
  }
}

void LeaseKeeper::EndLease(const std::string& lease_id, LeaseOutcome outcome,
                           const std::string& node, const std::string& detail, News& news) {
  const auto found = leases_.find(lease_id);
  const NodeLease& lease = found->second;
  for (const NodeLease::Node& member : lease.nodes) {
    agents_.at(member.connection).lease_id.clear();
    if (!HasHeard(lease, member)) continue;
    news.push_back({.to = member.connection,
                    .kind = LeaseNews::Kind::kEnded,
                    .lease = lease,
                    .outcome = outcome,
                    .node = node,
                    .detail = detail});
  }
  leases_.erase(found);
}

void LeaseKeeper::Remove(AgentConnection connection, const std::string& detail,
                         const absl::Status& farewell, News& news) {
  const auto found = agents_.find(connection);
  const AgentFacts facts = found->second.facts;
  if (!found->second.lease_id.empty()) {
    EndLease(found->second.lease_id, LeaseOutcome::kAgentLost, facts.node,
             absl::StrCat("node ", facts.node, " ", detail), news);
  }
  if (!farewell.ok()) {
    news.push_back({.to = connection, .kind = LeaseNews::Kind::kDisconnected, .status = farewell});
  }
  by_node_.erase({facts.cluster, facts.node});
  agents_.erase(connection);
}

}  // namespace parplan
