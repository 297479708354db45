// Counts the connected agents of each cluster for the observer. Decides nothing. `AgentCore` calls
// it under its lock.

#ifndef PARPLAN_SERVER_CORE_AGENT_ROSTER_H_
#define PARPLAN_SERVER_CORE_AGENT_ROSTER_H_

#include <map>
#include <string>

#include "absl/time/time.h"
#include "server/core/lease_keeper.h"
#include "server/core/observer.h"

namespace parplan {

// Reports every change to the observer. Not thread-safe.
class AgentRoster {
 public:
  // REQUIRES, unchecked: `observer` outlives the roster.
  explicit AgentRoster(Observer& observer) : observer_(observer) {}

  // Counts a new agent, which `Gone` takes away again. `now` is the time of day, for the observer.
  // REQUIRES: `connection` is not counted; not checked.
  void Connected(AgentConnection connection, const std::string& cluster, absl::Time now);
  // Reports that the agent sent a message at `now`. This and `Gone` ignore a connection that is not
  // known, or not any more.
  void Heard(AgentConnection connection, absl::Time now);
  // Takes the agent away from the count of its cluster.
  void Gone(AgentConnection connection);

 private:
  Observer& observer_;
  std::map<AgentConnection, std::string> clusters_;
  std::map<std::string, int> counts_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_AGENT_ROSTER_H_
