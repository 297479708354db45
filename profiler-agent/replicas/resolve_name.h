// Resolves a name to all of its addresses. Called by `Replicas::Order`.

#ifndef PARPLAN_PROFILER_AGENT_REPLICAS_RESOLVE_NAME_H_
#define PARPLAN_PROFILER_AGENT_REPLICAS_RESOLVE_NAME_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profiler-agent/replicas/server_target.h"

namespace parplan {

// Returns the addresses, IPv4 and IPv6, of the target's name with its port, as `AddressText`: at
// least one, in no order. The two families are asked at the same time, and if one gets no answer,
// the addresses of the other are returned alone, as OK. REQUIRES: the target is of kind kName; not
// checked. Uses c-ares in the way gRPC does: /etc/hosts first, then the target's name server or
// those of the system, with their search domains. Caches nothing. The name `localhost` is 127.0.0.1
// and ::1 without a query. Safe to call from any thread.
//
// Blocks for up to about 10 s in all: each name server is asked twice, for 2 s and then for longer,
// and there is no further retry. CANCELLED within 0.1 s after `is_stopped` is set, also if an
// answer came just before, except for `localhost`, which is answered even then; UNAVAILABLE if the
// name does not exist, no name server answers, or `target.dns_server` is no address. Neither has a
// `Reason` (base/error.h).
absl::StatusOr<std::vector<std::string>> ResolveName(const ServerTarget& target,
                                                     const std::atomic<bool>& is_stopped);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_REPLICAS_RESOLVE_NAME_H_
