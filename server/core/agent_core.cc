#include "server/core/agent_core.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/resource_name.h"
#include "server/core/agent_messages.h"
#include "server/core/random_secret.h"
#include "server/core/request_rules.h"
#include "server/core/search_pool.h"

namespace parplan {
namespace {

constexpr char kDrainingDetail[] = "the server shuts down";

// Longest wait of the watcher; bounded only so that the clock does not overflow.
constexpr absl::Duration kLongestWait = absl::Hours(1);

}  // namespace

// The messages of one call of the core. Created before the lock is taken, so that it is destroyed
// and flushes after the lock is released: the transport may call the core from within `Flush`.
class AgentCore::Round {
 public:
  explicit Round(AgentCore& core) : core_(core) {}
  ~Round() {
    for (const std::shared_ptr<AgentPeer>& peer : touched_) peer->Flush();
  }

  void Send(AgentConnection connection, v1::ConnectAgentResponse message) {
    const auto found = core_.peers_.find(connection);
    if (found == core_.peers_.end()) return;
    found->second->Send(std::move(message));
    touched_.insert(found->second);
  }

  // Also reports to the observer and wakes the watcher, since deadlines may have changed.
  void Send(const LeaseKeeper::News& all) {
    const absl::Duration now = core_.clock_.Steady();
    for (const LeaseNews& news : all) {
      if (news.kind == LeaseNews::Kind::kDisconnected) {
        Close(news.to, news.status);
        continue;
      }
      Send(news.to, NewsMessage(news, now));
      if (news.kind == LeaseNews::Kind::kEnded && news.to == news.lease.host_connection()) {
        core_.observer_.LeaseEnded(news.outcome, now - news.lease.start);
      }
    }
    core_.observer_.AgentsChanged(core_.keeper_.agent_count(), core_.keeper_.lease_count());
    core_.changed_.notify_all();
  }

  void Close(AgentConnection connection, const absl::Status& status) {
    const auto found = core_.peers_.find(connection);
    if (found == core_.peers_.end()) return;
    found->second->Close(status);
    touched_.insert(found->second);
    core_.peers_.erase(found);
    core_.roster_.Gone(connection);
  }

 private:
  AgentCore& core_;
  std::set<std::shared_ptr<AgentPeer>> touched_;
};

AgentSession::~AgentSession() {
  if (connection_ != 0) core_->Leave(connection_);
}

absl::Status AgentSession::Add(const v1::ConnectAgentRequest& request) {
  return connection_ == 0 ? core_->Greet(request, this) : core_->Handle(request, *this);
}

absl::Status AgentSession::AddUndecoded(const absl::Status& why) {
  if (connection_ == 0) {
    PARPLAN_RETURN_IF_ERROR(core_->guard_.CheckUndecoded(*context_, "ConnectAgent"));
  }
  return why;
}

AgentCore::AgentCore(const Clock& clock, Observer& observer, const Limits& limits, CallGuard& guard)
    : clock_(clock),
      observer_(observer),
      limits_(limits),
      guard_(guard),
      keeper_(limits),
      roster_(observer) {
  watcher_ = std::thread([this] { Watch(); });
}

AgentCore::~AgentCore() {
  Drain();
  watcher_.join();
}

std::unique_ptr<AgentSession> AgentCore::StartSession(std::shared_ptr<AgentPeer> peer,
                                                      std::shared_ptr<CallContext> context) {
  return std::unique_ptr<AgentSession>(new AgentSession(this, std::move(peer), std::move(context)));
}

absl::Status AgentCore::Greet(const v1::ConnectAgentRequest& request, AgentSession* session) {
  if (!request.has_hello()) {
    return FieldError(Reason::kSpecInvalid, "hello", "is required in the first message");
  }
  PARPLAN_ASSIGN_OR_RETURN(const AgentFacts facts, ReadHello(request.hello()));
  PARPLAN_RETURN_IF_ERROR(guard_.Check(*session->context_, "ConnectAgent", request.hello()));
  Round round(*this);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (draining_) return SearchPool::DrainingError();
  const AgentConnection connection = last_connection_ + 1;
  PARPLAN_ASSIGN_OR_RETURN(const LeaseKeeper::News news,
                           keeper_.Connect(connection, facts, request.hello().is_busy(),
                                           clock_.Steady(), session->context_->caller()->owner()));
  session->connection_ = last_connection_ = connection;
  session->cluster_ = facts.cluster;
  peers_[connection] = std::move(session->peer_);
  roster_.Connected(connection, facts.cluster, clock_.Now());
  round.Send(connection, WelcomeMessage(limits_));
  round.Send(news);
  return absl::OkStatus();
}

absl::Status AgentCore::Handle(const v1::ConnectAgentRequest& request,
                               const AgentSession& session) {
  const AgentConnection connection = session.connection_;
  Round round(*this);
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::Duration now = clock_.Steady();
  keeper_.Heard(connection, now);
  roster_.Heard(connection, clock_.Now());
  LeaseKeeper::News news;
  switch (request.message_case()) {
    case v1::ConnectAgentRequest::kHeartbeat:
      keeper_.SetBusy(connection, request.heartbeat().is_busy());
      return absl::OkStatus();
    case v1::ConnectAgentRequest::kRequestLease:
      return Ask(request.request_lease(), session, round);
    case v1::ConnectAgentRequest::kOpenLease: {
      const v1::LeaseOpening& opening = request.open_lease();
      PARPLAN_ASSIGN_OR_RETURN(
          news, keeper_.Open(connection, opening.lease_id(), opening.rendezvous_port()));
      break;
    }
    case v1::ConnectAgentRequest::kRenewLease: {
      const v1::LeaseRenewal& renewal = request.renew_lease();
      PARPLAN_ASSIGN_OR_RETURN(const absl::Duration duration,
                               DurationFromProto(renewal.duration(), "renew_lease.duration"));
      PARPLAN_ASSIGN_OR_RETURN(news, keeper_.Renew(connection, renewal.lease_id(), duration, now));
      break;
    }
    case v1::ConnectAgentRequest::kReturnLease: {
      const v1::LeaseReturn& given = request.return_lease();
      PARPLAN_RETURN_IF_ERROR(CheckCharacterCount(given.failure_reason(), kMaxReasonCharacters,
                                                  "return_lease.failure_reason"));
      PARPLAN_ASSIGN_OR_RETURN(
          news, keeper_.Return(connection, given.lease_id(), given.failure_reason()));
      break;
    }
    case v1::ConnectAgentRequest::kHello:
      return FieldError(Reason::kSpecInvalid, "hello", "must be in the first message only");
    case v1::ConnectAgentRequest::MESSAGE_NOT_SET:
      // A message of a later release counts as a sign of life.
      return absl::OkStatus();
  }
  round.Send(news);
  return absl::OkStatus();
}

absl::Status AgentCore::Ask(const v1::LeaseRequest& request, const AgentSession& session,
                            Round& round) {
  const AgentConnection connection = session.connection_;
  const Caller& caller = *session.context_->caller();
  PARPLAN_ASSIGN_OR_RETURN(LeaseQuestion question, ReadLeaseRequest(request));
  // The jobs that run there are not the agent's.
  if (caller.is_restricted() && !caller.Holds(Role::kOperator, session.cluster_)) {
    question.even_if_busy = false;
  }
  PARPLAN_ASSIGN_OR_RETURN(const auto answer, keeper_.Request(connection, question, RandomSecret(),
                                                              RandomSecret(), clock_.Steady()));
  if (const auto* const refused = std::get_if<LeaseRefused>(&answer)) {
    observer_.LeaseRefused(refused->kind);
    round.Send(connection, RefusalMessage(*refused, question.request_id));
  } else {
    round.Send(std::get<LeaseKeeper::News>(answer));
  }
  return absl::OkStatus();
}

void AgentCore::Leave(AgentConnection connection) {
  Round round(*this);
  const std::lock_guard<std::mutex> lock(mutex_);
  peers_.erase(connection);
  roster_.Gone(connection);
  round.Send(keeper_.Disconnect(connection));
}

absl::StatusOr<v1::ListAgentsResponse> AgentCore::List(const v1::ListAgentsRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const ClusterName name, ClusterName::Parse(request.parent(), "parent"));
  v1::ListAgentsResponse response;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const ConnectedAgent& agent : keeper_.List(name.cluster, clock_.Steady())) {
    *response.add_agents() = AgentToProto(agent);
  }
  return response;
}

void AgentCore::Tick() {
  Round round(*this);
  const std::lock_guard<std::mutex> lock(mutex_);
  const LeaseKeeper::News news = keeper_.Tick(clock_.Steady());
  if (!news.empty()) round.Send(news);
}

void AgentCore::Drain() {
  Round round(*this);
  const std::lock_guard<std::mutex> lock(mutex_);
  draining_ = true;
  round.Send(keeper_.Close(SearchPool::DrainingError(), kDrainingDetail));
}

void AgentCore::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!draining_) {
    const std::optional<absl::Duration> deadline = keeper_.NextDeadline();
    if (!deadline.has_value()) {
      changed_.wait(lock);
      continue;
    }
    const absl::Duration left = *deadline - clock_.Steady();
    if (left > absl::ZeroDuration()) {
      // Rounded up: rounded down, it would wake a moment too early again and again.
      changed_.wait_for(lock, absl::ToChronoMilliseconds(std::min(left, kLongestWait)) +
                                  std::chrono::milliseconds(1));
      continue;
    }
    lock.unlock();
    Tick();
    lock.lock();
  }
}

}  // namespace parplan
