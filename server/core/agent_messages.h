// Converts messages about agents and leases between the contract and the keeper. Called by
// `AgentCore`.

#ifndef PARPLAN_SERVER_CORE_AGENT_MESSAGES_H_
#define PARPLAN_SERVER_CORE_AGENT_MESSAGES_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parplan/v1/agent_service.pb.h"
#include "server/core/lease_keeper.h"
#include "server/core/limits.h"

namespace parplan {

// Reads and checks `hello`. INVALID_ARGUMENT (SPEC_INVALID) naming the field below it.
absl::StatusOr<AgentFacts> ReadHello(const v1::AgentHello& hello);

// Reads `request_lease` and checks the rules that do not depend on the agent that asks; the keeper
// checks the others. INVALID_ARGUMENT (SPEC_INVALID) naming the field below it.
absl::StatusOr<LeaseQuestion> ReadLeaseRequest(const v1::LeaseRequest& request);

v1::ConnectAgentResponse WelcomeMessage(const Limits& limits);
v1::ConnectAgentResponse RefusalMessage(const LeaseRefused& refused, const std::string& request_id);
// `now` is on the clock of the lease's times. REQUIRES: not `kDisconnected`.
v1::ConnectAgentResponse NewsMessage(const LeaseNews& news, absl::Duration now);

v1::Agent AgentToProto(const ConnectedAgent& agent);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_AGENT_MESSAGES_H_
