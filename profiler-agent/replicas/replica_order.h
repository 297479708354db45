// Decides to which of several replicas the agents of a cluster connect. `Replicas::Order` calls it.

#ifndef PARPLAN_PROFILER_AGENT_REPLICAS_REPLICA_ORDER_H_
#define PARPLAN_PROFILER_AGENT_REPLICAS_REPLICA_ORDER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// Returns the addresses without duplicates, the preferred one first and then those to fall back to,
// by rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates",
// 1998). The order depends only on the cluster and the set of addresses, so agents that know the
// same replicas choose the same one without communicating. Adding or removing an address leaves the
// order of the others unchanged, and clusters spread evenly.
//
// Agents of different releases must agree, so the weights never change.
std::vector<std::string> OrderReplicas(absl::string_view cluster,
                                       std::vector<std::string> addresses);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_REPLICAS_REPLICA_ORDER_H_
