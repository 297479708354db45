#include "profiler-agent/lease/lease_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace parplan {
namespace {

using Kind = LeaseAction::Kind;

// Least distance between renewals of one lease. Without it a lease that the server cannot extend
// would be renewed ever more often as its end approaches.
constexpr absl::Duration kRenewalDistance = absl::Seconds(5);
// Interval between heartbeats if the server names none.
constexpr absl::Duration kDefaultHeartbeat = absl::Seconds(15);
// Pause between the return of a lease and a move to another replica, in which the message is sent.
constexpr absl::Duration kSettleTime = absl::Seconds(2);

// Converts a duration from the server, which is well formed.
absl::Duration SpanOf(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

void SetSpan(absl::Duration span, google::protobuf::Duration* duration) {
  const int64_t nanoseconds = absl::ToInt64Nanoseconds(span);
  duration->set_seconds(nanoseconds / 1000000000);
  duration->set_nanos(static_cast<int32_t>(nanoseconds % 1000000000));
}

// Returns whether the server rejected the agent or its message for a reason that will not change
// within seconds.
bool IsRefusal(const absl::Status& status) {
  return status.code() == absl::StatusCode::kAlreadyExists ||
         status.code() == absl::StatusCode::kInvalidArgument ||
         status.code() == absl::StatusCode::kUnimplemented ||
         status.code() == absl::StatusCode::kUnauthenticated ||
         status.code() == absl::StatusCode::kPermissionDenied;
}

std::string NodeIdOf(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  return parts.back();
}

}  // namespace

LeaseMachine::LeaseMachine(LeaseMachineOptions options, std::function<double()> random)
    : options_(std::move(options)),
      random_(std::move(random)),
      node_id_(NodeIdOf(options_.hello.node())),
      is_busy_(options_.hello.is_busy()),
      deadline_(absl::InfiniteDuration()) {}

LeaseMachine::Actions LeaseMachine::Start(absl::Duration now) {
  if (state_ != State::kOff) return {};
  return {Connect(Kind::kConnect, now)};
}

LeaseMachine::Actions LeaseMachine::StreamEnded(const absl::Status& status, absl::Duration now,
                                                bool has_next) {
  // The machine ended the stream itself, and no lease or request was open.
  if (state_ == State::kMoving) return {Connect(Kind::kConnect, now)};
  Actions actions;
  if (state_ == State::kConnecting && has_next && !IsRefusal(status)) {
    last_end_ = status;
    actions.push_back(Connect(Kind::kConnectNext, now));
    return actions;
  }
  // The server ends a stream with the token or certificate that it began with. A renewed one is
  // most likely there, and is read for the next stream.
  const bool has_expired = state_ == State::kConnected && absl::IsUnauthenticated(status);
  failure_count_ = state_ == State::kConnected ? 1 : failure_count_ + 1;
  state_ = State::kWaiting;
  last_end_ = status;
  deadline_ = now + (has_expired ? BackoffPause(options_.backoff, failure_count_, random_())
                                 : PauseAfter(status, now));
  while (!leases_.empty()) {
    End(leases_.begin()->first, v1::LEASE_END_CAUSE_AGENT_LOST,
        absl::StrCat("the connection to the server ended: ", std::string(status.message())),
        actions);
  }
  for (const std::string& request : std::exchange(requests_, {})) {
    actions.push_back(Refuse(request));
  }
  return actions;
}

absl::Duration LeaseMachine::PauseAfter(const absl::Status& status, absl::Duration now) {
  if (absl::IsAlreadyExists(status)) {
    if (!first_conflict_.has_value()) first_conflict_ = now;
    if (now - *first_conflict_ < options_.former_time) return options_.former_pause;
  } else {
    first_conflict_.reset();
  }
  return IsRefusal(status) ? options_.backoff.longest_pause * (0.5 + 0.5 * random_())
                           : BackoffPause(options_.backoff, failure_count_, random_());
}

LeaseMachine::Actions LeaseMachine::Received(const v1::ConnectAgentResponse& message,
                                             absl::Duration now) {
  Actions actions;
  if (state_ == State::kConnecting && message.has_welcome()) {
    state_ = State::kConnected;
    failure_count_ = 0;
    first_conflict_.reset();
    heartbeat_ = SpanOf(message.welcome().heartbeat_time());
    if (heartbeat_ <= absl::ZeroDuration()) heartbeat_ = kDefaultHeartbeat;
    next_look_ = NextLook(now);
    is_there_better_ = false;
    actions.push_back({.kind = Kind::kWelcomed});
    // `SetBusy` may have been called since the hello was made.
    SendHeartbeat(now, actions);
    return actions;
  }
  if (state_ != State::kConnected) return actions;
  switch (message.message_case()) {
    case v1::ConnectAgentResponse::kLeaseGranted: {
      const v1::Lease& lease = message.lease_granted();
      if (requests_.erase(lease.request_id()) == 0) break;
      Keep(lease, true, now);
      actions.push_back({.kind = Kind::kGranted, .lease = lease});
      break;
    }
    case v1::ConnectAgentResponse::kLeaseRefused:
      if (requests_.erase(message.lease_refused().request_id()) == 0) break;
      actions.push_back({.kind = Kind::kRefused, .refusal = message.lease_refused()});
      break;
    case v1::ConnectAgentResponse::kLeaseOpened: {
      const v1::Lease& lease = message.lease_opened();
      const bool is_host = lease.host_index() >= 0 && lease.host_index() < lease.nodes_size() &&
                           lease.nodes(lease.host_index()).node_id() == node_id_;
      // The host already knows of its lease, and may have returned it since.
      if (is_host || leases_.count(lease.lease_id()) > 0) break;
      Keep(lease, false, now);
      actions.push_back({.kind = Kind::kOpened, .lease = lease});
      break;
    }
    case v1::ConnectAgentResponse::kLeaseRenewed: {
      const v1::Lease& lease = message.lease_renewed();
      const auto found = leases_.find(lease.lease_id());
      if (found == leases_.end()) break;
      found->second.end = now + SpanOf(lease.remaining_time());
      break;
    }
    case v1::ConnectAgentResponse::kLeaseEnded: {
      const v1::LeaseEnd& end = message.lease_ended();
      if (leases_.erase(end.lease_id()) == 0) break;
      actions.push_back({.kind = Kind::kEnded, .end = end});
      break;
    }
    default:
      break;  // A second welcome, or a message from a later release.
  }
  return actions;
}

LeaseMachine::Actions LeaseMachine::Request(const v1::LeaseRequest& request, absl::Duration now) {
  Actions actions;
  if (state_ != State::kConnected) {
    actions.push_back(Refuse(request.request_id()));
    return actions;
  }
  requests_.insert(request.request_id());
  v1::ConnectAgentRequest message;
  *message.mutable_request_lease() = request;
  Send(std::move(message), now, actions);
  return actions;
}

LeaseMachine::Actions LeaseMachine::Open(const std::string& lease_id, int port,
                                         absl::Duration now) {
  Actions actions;
  const auto found = leases_.find(lease_id);
  if (found == leases_.end() || !found->second.is_host) return actions;
  v1::ConnectAgentRequest message;
  message.mutable_open_lease()->set_lease_id(lease_id);
  message.mutable_open_lease()->set_rendezvous_port(port);
  Send(std::move(message), now, actions);
  return actions;
}

LeaseMachine::Actions LeaseMachine::Return(const std::string& lease_id,
                                           const std::string& failure_reason, absl::Duration now) {
  Actions actions;
  if (leases_.erase(lease_id) == 0) return actions;
  v1::ConnectAgentRequest message;
  message.mutable_return_lease()->set_lease_id(lease_id);
  message.mutable_return_lease()->set_failure_reason(failure_reason);
  Send(std::move(message), now, actions);
  earliest_move_ = now + kSettleTime;
  return actions;
}

LeaseMachine::Actions LeaseMachine::SetBusy(bool is_busy, absl::Duration now) {
  Actions actions;
  if (std::exchange(is_busy_, is_busy) == is_busy) return actions;
  if (state_ == State::kConnected) SendHeartbeat(now, actions);
  return actions;
}

LeaseMachine::Actions LeaseMachine::Looked(bool is_there_better, absl::Duration now) {
  if (state_ == State::kConnected) {
    next_look_ = NextLook(now);
    is_there_better_ = is_there_better;
  }
  return {};
}

LeaseMachine::Actions LeaseMachine::Tick(absl::Duration now) {
  Actions actions;
  if (state_ == State::kWaiting && now >= deadline_) {
    actions.push_back(Connect(Kind::kConnect, now));
  } else if (state_ == State::kConnecting && now >= deadline_) {
    // The owner of the stream reports its end, and another attempt follows. Repeated, because there
    // may be no stream yet.
    deadline_ = now + options_.connect_patience;
    actions.push_back({.kind = Kind::kDisconnect});
  }
  std::vector<std::string> over;
  for (auto& [id, lease] : leases_) {
    if (now >= lease.end) {
      over.push_back(id);
    } else if (lease.is_host && now >= lease.renewal) {
      v1::ConnectAgentRequest message;
      message.mutable_renew_lease()->set_lease_id(id);
      SetSpan(lease.length, message.mutable_renew_lease()->mutable_duration());
      Send(std::move(message), now, actions);
      lease.renewal = now + std::max(lease.length / 2, kRenewalDistance);
    }
  }
  for (const std::string& id : over) {
    End(id, v1::LEASE_END_CAUSE_EXPIRED, "the lease expired", actions);
  }
  if (now >= MoveTime()) {
    state_ = State::kMoving;
    deadline_ = absl::InfiniteDuration();
    actions.push_back({.kind = Kind::kDisconnect});
  }
  if (state_ != State::kConnected) return actions;
  if (now >= next_heartbeat_) SendHeartbeat(now, actions);
  if (now >= next_look_) {
    next_look_ = absl::InfiniteDuration();
    actions.push_back({.kind = Kind::kLook});
  }
  return actions;
}

absl::Duration LeaseMachine::NextDeadline() const {
  absl::Duration next = deadline_;
  if (state_ == State::kConnected) {
    next = std::min({next_heartbeat_, next_look_, MoveTime()});
  }
  for (const auto& [id, lease] : leases_) {
    next = std::min(next, lease.end);
    if (lease.is_host) next = std::min(next, lease.renewal);
  }
  return next;
}

void LeaseMachine::Send(v1::ConnectAgentRequest message, absl::Duration now, Actions& actions) {
  actions.push_back({.kind = Kind::kSend, .message = std::move(message)});
  next_heartbeat_ = now + heartbeat_;
}

void LeaseMachine::SendHeartbeat(absl::Duration now, Actions& actions) {
  v1::ConnectAgentRequest message;
  message.mutable_heartbeat()->set_is_busy(is_busy_);
  Send(std::move(message), now, actions);
}

void LeaseMachine::Keep(const v1::Lease& lease, bool is_host, absl::Duration now) {
  Held& held = leases_[lease.lease_id()];
  held.is_host = is_host;
  held.length = SpanOf(lease.remaining_time());
  held.end = now + held.length;
  held.renewal = now + held.length / 2;
}

void LeaseMachine::End(const std::string& lease_id, v1::LeaseEndCause cause,
                       const std::string& detail, Actions& actions) {
  LeaseAction& action = actions.emplace_back();
  action.kind = Kind::kEnded;
  action.end.set_lease_id(lease_id);
  action.end.set_cause(cause);
  action.end.set_detail(detail);
  leases_.erase(lease_id);
}

LeaseAction LeaseMachine::Connect(Kind kind, absl::Duration now) {
  state_ = State::kConnecting;
  deadline_ = now + options_.connect_patience;
  return {.kind = kind};
}

absl::Duration LeaseMachine::NextLook(absl::Duration now) const {
  return now + options_.look_interval * (0.75 + 0.5 * random_());
}

absl::Duration LeaseMachine::MoveTime() const {
  const bool may_move = state_ == State::kConnected && leases_.empty() && requests_.empty();
  return may_move && is_there_better_ ? earliest_move_ : absl::InfiniteDuration();
}

LeaseAction LeaseMachine::Refuse(const std::string& request_id) const {
  LeaseAction action;
  action.kind = Kind::kRefused;
  action.refusal.set_request_id(request_id);
  action.refusal.set_detail(last_end_.ok() ? "not connected to the server yet"
                                           : absl::StrCat("not connected to the server: ",
                                                          std::string(last_end_.message())));
  return action;
}

}  // namespace parplan
