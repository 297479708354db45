#include "server/core/agent_messages.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/resource_name.h"
#include "server/core/request_rules.h"

namespace parplan {
namespace {

// The limits of agent_service.proto. No name in the DNS is longer than a host's (RFC 1035, 2.3.4).
constexpr int kMaxNameCharacters = 128;
constexpr int kMaxHostCharacters = 255;
constexpr int kMaxIdCharacters = 64;
constexpr size_t kMaxTaskBytes = size_t{64} << 10;

absl::Status CheckText(const std::string& text, bool required, int max_count,
                       absl::string_view field) {
  if (text.empty() && required) return RequestError(field, "is required");
  return CheckCharacterCount(text, max_count, field);
}

bool IsSha256Text(absl::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

// Returns `HOST:PORT`, with an IPv6 address in brackets.
std::string AddressOf(const std::string& host, int port) {
  const bool is_ipv6 = absl::StrContains(host, ":") && !absl::StartsWith(host, "[");
  return is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

v1::Lease LeaseToProto(const LeaseNews& news, absl::Duration now) {
  const NodeLease& lease = news.lease;
  v1::Lease message;
  message.set_lease_id(lease.id);
  if (news.kind == LeaseNews::Kind::kGranted) message.set_request_id(lease.request_id);
  for (const NodeLease::Node& node : lease.nodes) {
    v1::LeaseNode& entry = *message.add_nodes();
    entry.set_node_id(node.facts.node);
    entry.set_host(node.facts.host);
    entry.set_device_kind(node.facts.device_kind);
    entry.set_device_count(node.facts.device_count);
    entry.set_inventory_fingerprint(node.facts.fingerprint);
  }
  message.set_host_index(lease.host);
  if (lease.rendezvous_port > 0) {
    message.set_rendezvous_address(
        AddressOf(lease.nodes[lease.host].facts.host, lease.rendezvous_port));
  }
  message.set_token(lease.token);
  *message.mutable_remaining_time() =
      DurationToProto(std::max(lease.end - now, absl::ZeroDuration()));
  message.set_task(lease.task);
  return message;
}

v1::LeaseEnd EndToProto(const LeaseNews& news) {
  v1::LeaseEnd end;
  end.set_lease_id(news.lease.id);
  end.set_cause(static_cast<v1::LeaseEndCause>(static_cast<int>(news.outcome) + 1));
  end.set_node_id(news.node);
  end.set_detail(news.detail);
  return end;
}

static_assert(v1::LeaseEndCause_MAX == kLeaseOutcomeCount);
static_assert(v1::LeaseRefusalCause_MAX == kLeaseRefusalKindCount);

}  // namespace

absl::StatusOr<AgentFacts> ReadHello(const v1::AgentHello& hello) {
  PARPLAN_ASSIGN_OR_RETURN(const NodeName name, NodeName::Parse(hello.node(), "hello.node"));
  PARPLAN_RETURN_IF_ERROR(
      CheckText(hello.instance_id(), true, kMaxIdCharacters, "hello.instance_id"));
  PARPLAN_RETURN_IF_ERROR(CheckText(hello.agent(), false, kMaxNameCharacters, "hello.agent"));
  PARPLAN_RETURN_IF_ERROR(CheckText(hello.host(), true, kMaxHostCharacters, "hello.host"));
  if (!std::all_of(hello.host().begin(), hello.host().end(),
                   [](unsigned char byte) { return absl::ascii_isgraph(byte); })) {
    return RequestError("hello.host", "must be the name or address of a machine, without spaces");
  }
  PARPLAN_RETURN_IF_ERROR(
      CheckText(hello.device_kind(), true, kMaxNameCharacters, "hello.device_kind"));
  if (hello.device_count() < 1) return RequestError("hello.device_count", "must be at least 1");
  if (!hello.inventory_fingerprint().empty() && !IsSha256Text(hello.inventory_fingerprint())) {
    return RequestError("hello.inventory_fingerprint",
                        "must be a SHA-256 of 64 lower-case hexadecimal digits, or empty");
  }
  return AgentFacts{.cluster = name.cluster,
                    .node = name.node,
                    .instance = hello.instance_id(),
                    .release = hello.agent(),
                    .host = hello.host(),
                    .device_kind = hello.device_kind(),
                    .device_count = hello.device_count(),
                    .fingerprint = hello.inventory_fingerprint()};
}

absl::StatusOr<LeaseQuestion> ReadLeaseRequest(const v1::LeaseRequest& request) {
  PARPLAN_RETURN_IF_ERROR(
      CheckText(request.request_id(), true, kMaxIdCharacters, "request_lease.request_id"));
  if (request.task().size() > kMaxTaskBytes) {
    return RequestError("request_lease.task",
                        absl::StrCat("must be at most ", kMaxTaskBytes, " bytes"));
  }
  LeaseQuestion question;
  question.request_id = request.request_id();
  for (int i = 0; i < request.node_ids_size(); ++i) {
    if (!IsNodeId(request.node_ids(i))) {
      return RequestError(absl::StrCat("request_lease.node_ids[", i, "]"),
                          "must be the id of a node");
    }
    question.nodes.push_back(request.node_ids(i));
  }
  if (request.has_duration()) {
    PARPLAN_ASSIGN_OR_RETURN(question.duration,
                             DurationFromProto(request.duration(), "request_lease.duration"));
    if (question.duration <= absl::ZeroDuration()) {
      return RequestError("request_lease.duration", "must be above 0, or absent");
    }
  }
  question.even_if_busy = request.even_if_busy();
  question.task = request.task();
  return question;
}

v1::ConnectAgentResponse WelcomeMessage(const Limits& limits) {
  v1::ConnectAgentResponse message;
  v1::AgentWelcome& welcome = *message.mutable_welcome();
  *welcome.mutable_heartbeat_time() = DurationToProto(limits.agent_heartbeat);
  *welcome.mutable_longest_silence_time() = DurationToProto(limits.longest_agent_silence);
  *welcome.mutable_max_lease_duration() = DurationToProto(limits.max_lease_duration);
  welcome.set_max_lease_node_count(limits.max_lease_node_count);
  return message;
}

v1::ConnectAgentResponse RefusalMessage(const LeaseRefused& refused,
                                        const std::string& request_id) {
  v1::ConnectAgentResponse message;
  v1::LeaseRefusal& refusal = *message.mutable_lease_refused();
  refusal.set_request_id(request_id);
  refusal.set_cause(static_cast<v1::LeaseRefusalCause>(static_cast<int>(refused.kind) + 1));
  refusal.set_node_id(refused.node);
  refusal.set_detail(refused.detail);
  *refusal.mutable_retry_time() = DurationToProto(refused.retry);
  return message;
}

v1::ConnectAgentResponse NewsMessage(const LeaseNews& news, absl::Duration now) {
  v1::ConnectAgentResponse message;
  switch (news.kind) {
    case LeaseNews::Kind::kGranted:
      *message.mutable_lease_granted() = LeaseToProto(news, now);
      break;
    case LeaseNews::Kind::kOpened:
      *message.mutable_lease_opened() = LeaseToProto(news, now);
      break;
    case LeaseNews::Kind::kRenewed:
      *message.mutable_lease_renewed() = LeaseToProto(news, now);
      break;
    case LeaseNews::Kind::kEnded:
      *message.mutable_lease_ended() = EndToProto(news);
      break;
    case LeaseNews::Kind::kDisconnected:
      PARPLAN_CHECK(false);
  }
  return message;
}

v1::Agent AgentToProto(const ConnectedAgent& agent) {
  v1::Agent message;
  message.set_node(NodeName{agent.facts.cluster, agent.facts.node}.ToString());
  message.set_agent(agent.facts.release);
  message.set_host(agent.facts.host);
  message.set_device_kind(agent.facts.device_kind);
  message.set_device_count(agent.facts.device_count);
  message.set_inventory_fingerprint(agent.facts.fingerprint);
  message.set_is_busy(agent.is_busy);
  *message.mutable_connected_time() = DurationToProto(agent.connected_for);
  *message.mutable_silent_time() = DurationToProto(agent.silent_for);
  message.set_lease_id(agent.lease_id);
  return message;
}

}  // namespace parplan
