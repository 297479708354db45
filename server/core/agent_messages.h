// Converts messages about agents and leases between the contract and the keeper. Called by
// `AgentCore`.

#ifndef PARPLAN_SERVER_CORE_AGENT_MESSAGES_H_
#define PARPLAN_SERVER_CORE_AGENT_MESSAGES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parplan/v1/agent_service.pb.h"
#include "server/core/lease_keeper.h"
#include "server/core/limits.h"

namespace parplan {

// Reads and checks `hello`. INVALID_ARGUMENT (SPEC_INVALID) naming the field below it, such as
// `hello.node`, unless `node` is a resource name, `device_count` is at least 1, and the texts have
// at most so many characters: `instance_id` 1 to 64, `host` 1 to 255 of visible ASCII,
// `device_kind` 1 to 128, `agent` 128; and `inventory_fingerprint` is empty or a SHA-256 of 64
// lower-case hexadecimal digits.
absl::StatusOr<AgentFacts> ReadHello(const v1::AgentHello& hello);

// Reads `request_lease` and checks the rules that do not depend on the agent that asks; the keeper
// checks the others (`LeaseKeeper::Request`). INVALID_ARGUMENT (SPEC_INVALID) naming the field
// below it, unless `request_id` has 1 to 64 characters, `node_ids` are ids of nodes, `duration` is
// absent or above 0, and `task` has at most 64 KiB.
absl::StatusOr<LeaseQuestion> ReadLeaseRequest(const v1::LeaseRequest& request);

// Returns the answer to `hello`, with the intervals that the agent must keep.
v1::ConnectAgentResponse WelcomeMessage(const Limits& limits);
// Returns the refusal of the request for a lease with that `request_id`, which the agent chose.
v1::ConnectAgentResponse RefusalMessage(const LeaseRefused& refused, const std::string& request_id);
// Returns the message for one connection. `now` is on the clock of the lease's times. REQUIRES: the
// kind is not `kDisconnected`; aborts otherwise.
v1::ConnectAgentResponse NewsMessage(const LeaseNews& news, absl::Duration now);

// Returns the message of one agent, as `ListAgents` returns it.
v1::Agent AgentToProto(const ConnectedAgent& agent);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_AGENT_MESSAGES_H_
