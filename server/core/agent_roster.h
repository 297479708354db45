// How many agents are connected, cluster by cluster, and when they were heard last: for those
// who watch. Decides nothing.

#ifndef PARPLAN_SERVER_CORE_AGENT_ROSTER_H_
#define PARPLAN_SERVER_CORE_AGENT_ROSTER_H_

#include <map>
#include <string>

#include "absl/time/time.h"
#include "server/core/lease_keeper.h"
#include "server/core/observer.h"

namespace parplan {

// Tells the observer of every change. Not safe to use from several threads.
class AgentRoster {
 public:
  // `observer` outlives the roster.
  explicit AgentRoster(Observer& observer) : observer_(observer) {}

  void Connected(AgentConnection connection, const std::string& cluster, absl::Time now);
  // A message came. This and the next do nothing where the connection is not known (any more).
  void Heard(AgentConnection connection, absl::Time now);
  void Gone(AgentConnection connection);

 private:
  Observer& observer_;
  std::map<AgentConnection, std::string> clusters_;
  std::map<std::string, int> counts_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_AGENT_ROSTER_H_
