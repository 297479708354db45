// Asks name servers for the addresses behind a name, all of them.

#ifndef PARPLAN_PROFILER_AGENT_REPLICAS_RESOLVE_NAME_H_
#define PARPLAN_PROFILER_AGENT_REPLICAS_RESOLVE_NAME_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profiler-agent/replicas/server_target.h"

namespace parplan {

// The addresses of a target of kind kName, IPv4 and IPv6, as `AddressText`, in no order. By
// c-ares, as gRPC does it: /etc/hosts, then the target's name server or those of the system,
// with their search domains. Nothing is kept from one call to the next.
//
// Waits up to about 10 s, and ends within a tenth of a second once `is_stopped`: CANCELLED. Else
// UNAVAILABLE where nobody knows the name or nobody answers.
absl::StatusOr<std::vector<std::string>> ResolveName(const ServerTarget& target,
                                                     const std::atomic<bool>& is_stopped);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_REPLICAS_RESOLVE_NAME_H_
