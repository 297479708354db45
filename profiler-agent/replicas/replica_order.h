// Which of several replicas the agents of a cluster connect to.

#ifndef PARPLAN_PROFILER_AGENT_REPLICAS_REPLICA_ORDER_H_
#define PARPLAN_PROFILER_AGENT_REPLICAS_REPLICA_ORDER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// The addresses, each once, the one to choose first and then those to fall back to: rendezvous
// hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998). The
// order depends on nothing but the cluster and the set, so agents that know the same replicas
// choose the same one without talking. One that goes or comes changes nothing in the order of
// the others, and clusters spread evenly.
//
// Agents of different releases must agree: the weights never change.
std::vector<std::string> OrderReplicas(absl::string_view cluster,
                                       std::vector<std::string> addresses);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_REPLICAS_REPLICA_ORDER_H_
