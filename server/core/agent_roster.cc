#include "server/core/agent_roster.h"

namespace parplan {

void AgentRoster::Connected(AgentConnection connection, const std::string& cluster,
                            absl::Time now) {
  clusters_[connection] = cluster;
  observer_.ClusterAgentsChanged(cluster, ++counts_[cluster]);
  observer_.AgentHeard(cluster, now);
}

void AgentRoster::Heard(AgentConnection connection, absl::Time now) {
  const auto found = clusters_.find(connection);
  if (found != clusters_.end()) observer_.AgentHeard(found->second, now);
}

void AgentRoster::Gone(AgentConnection connection) {
  const auto found = clusters_.find(connection);
  if (found == clusters_.end()) return;
  const auto count = counts_.find(found->second);
  observer_.ClusterAgentsChanged(count->first, --count->second);
  if (count->second == 0) counts_.erase(count);
  clusters_.erase(found);
}

}  // namespace parplan
