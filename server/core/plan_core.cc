#include "server/core/plan_core.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/memory_account.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verifier.h"
#include "proto/wire/digest.h"
#include "proto/wire/resource_name.h"
#include "server/core/issue.h"
#include "server/core/shared_search.h"
#include "server/core/stored_message.h"

namespace parplan {
namespace {

// Least bytes that a plan takes up in the store without its spec. Far fewer than any plan has: the
// quota is asked again with the real ones before it is stored.
constexpr int64_t kMinPlanBytes = 1024;

}  // namespace

PlanCore::PlanCore(Dependencies dependencies)
    : dependencies_(std::move(dependencies)),
      ready_plans_(dependencies_.limits.plan_cache_bytes),
      answers_(dependencies_.limits.result_cache_bytes),
      flights_(dependencies_.clock) {}

void PlanCore::CreatePlan(const std::shared_ptr<CallContext>& context,
                          const v1::CreatePlanRequest& request, const PlanDone& done) {
  SearchPlan(context, request, nullptr, done);
}

void PlanCore::SearchPlan(const std::shared_ptr<CallContext>& context,
                          const v1::CreatePlanRequest& request, const ProgressListener& progress,
                          const PlanDone& done) {
  const absl::StatusOr<ClusterName> parent = ReadParent(request);
  if (!parent.ok()) return done(parent.status());
  const std::string& owner = context->caller()->owner();
  std::string request_key = RequestKey(request, owner);
  absl::StatusOr<SharedPlan> ready =
      FindRetried(parent->cluster, owner, request.request_id(), request.job_id(), request.spec());
  if (ready.ok() && *ready == nullptr) ready = FindReady(*parent, request_key);
  if (!ready.ok() || *ready != nullptr) return done(std::move(ready));
  const absl::StatusOr<SharedQuestion> read =
      ReadQuestion(*context, request, *parent, std::move(request_key), dependencies_.knowledge,
                   dependencies_.limits);
  if (!read.ok()) return done(read.status());
  const SharedQuestion& question = *read;
  absl::StatusOr<SharedPlan> stored = FindStored(*question);
  if (!stored.ok() || *stored != nullptr) return done(std::move(stored));
  if (question->caller->is_restricted()) {
    // Before the search, which would be in vain.
    const absl::Status is_free = FindPlace(*question).status();
    if (!is_free.ok()) return done(is_free);
  }
  // Nor could its plan be stored on a full disk.
  if (const absl::Status room = dependencies_.store.room(); !room.ok()) return done(room);
  // Before the search as well, which would be in vain.
  const std::string spec = question->spec.SerializeAsString();
  const absl::Status has_room =
      dependencies_.quotas.Check({.owner = owner,
                                  .cluster = parent->cluster,
                                  .plan_count = 1,
                                  .byte_count = static_cast<int64_t>(spec.size()) + kMinPlanBytes,
                                  .spec = &spec});
  if (!has_room.ok()) return done(has_room);
  const SharedAnswer known = FindAnswer(*question);
  dependencies_.observer.CacheLookedUp(CacheKind::kResult, known != nullptr);
  if (known != nullptr) return done(Issue(*question, *known));

  const bool shared = flights_.Join(
      question->flight_key, context, progress,
      [this, question, done](const absl::StatusOr<SharedAnswer>& answer) {
        if (!answer.ok()) return done(answer.status());
        done(Issue(*question, **answer));
      },
      [this, question](const PlanFlight& flight) { return StartSearch(question, flight); });
  if (shared) dependencies_.observer.SearchShared();
}

bool PlanCore::HasLifeLeft(absl::Time issue_time, absl::Time expire_time) const {
  const absl::Time now = dependencies_.clock.Now();
  // After the clock was set back the plan would be from the future, which verifiers refuse.
  return now >= issue_time - PlanVerifier::kIssueTimeTolerance &&
         expire_time - now >= kMinLifeLeft * (expire_time - issue_time);
}

absl::StatusOr<SharedPlan> PlanCore::FindReady(const ClusterName& parent,
                                               const std::string& request_key) {
  const std::optional<ReadyPlan> ready = ready_plans_.Get(request_key);
  SharedPlan plan;
  if (ready.has_value() && HasLifeLeft(ready->issue_time, ready->expire_time)) {
    PARPLAN_ASSIGN_OR_RETURN(const KnowledgeVersion version,
                             dependencies_.knowledge.Version(parent.cluster));
    const int64_t trust_version = dependencies_.keys.TrustVersion(dependencies_.clock.Now());
    if (ready->version == version && ready->trust_version == trust_version) plan = ready->plan;
  }
  dependencies_.observer.CacheLookedUp(CacheKind::kPlan, plan != nullptr);
  return plan;
}

absl::StatusOr<SharedPlan> PlanCore::FindRetried(const std::string& cluster,
                                                 const std::string& owner,
                                                 const std::string& request_id,
                                                 const std::string& job_id,
                                                 const v1::PlanSpec& spec) {
  if (request_id.empty()) return SharedPlan();
  PARPLAN_ASSIGN_OR_RETURN(const std::optional<PlanRecord> record,
                           dependencies_.store.FindPlanByRequestId(cluster, owner, request_id));
  if (!record.has_value()) return SharedPlan();
  PARPLAN_ASSIGN_OR_RETURN(v1::Plan plan, ParseStoredPlan(*record));
  if (record->job_id != job_id || plan.spec().SerializeAsString() != spec.SerializeAsString()) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kRequestIdReused,
                     "request_id was used for another question; use a new one",
                     {{"requestId", request_id}});
  }
  if (record->expire_time <= dependencies_.clock.Now()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kPlanExpired,
                     "the plan made for this request_id has expired; ask again with a new one",
                     {{"expireTime", absl::FormatTime(absl::RFC3339_sec, record->expire_time,
                                                      absl::UTCTimeZone())}});
  }
  if (!HasLiveSignature(cluster, plan, record->create_time)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kSignatureInvalid,
                     absl::StrCat("the plan made for this request_id, ", record->name,
                                  ", was signed by keys that are revoked; "
                                  "ask again with a new request_id"),
                     {{"requestId", request_id}});
  }
  plan.set_from_cache(true);
  return std::make_shared<const v1::Plan>(std::move(plan));
}

absl::StatusOr<SharedPlan> PlanCore::FindStored(const PlanQuestion& question) {
  PARPLAN_ASSIGN_OR_RETURN(
      const std::optional<PlanRecord> record,
      dependencies_.store.FindPlanByKey(question.cluster, question.binding_key, question.job_id,
                                        dependencies_.clock.Now()));
  if (!record.has_value() || !HasLifeLeft(record->create_time, record->expire_time)) {
    return SharedPlan();
  }
  PARPLAN_ASSIGN_OR_RETURN(v1::Plan plan, ParseStoredPlan(*record));
  // The id is made of the question that the plan answers.
  const PlanName name{question.cluster, NewPlanId(question.binding_key, record->create_time)};
  if (record->name != name.ToString()) return DamagedError(record->name);
  const int64_t trust_version = dependencies_.keys.TrustVersion(dependencies_.clock.Now());
  if (!HasLiveSignature(question.cluster, plan, record->create_time)) return SharedPlan();
  return Remember(question, *record, std::move(plan), trust_version);
}

bool PlanCore::HasLiveSignature(const std::string& cluster, const v1::Plan& plan,
                                absl::Time create_time) const {
  ExpectedAudience expected;
  expected.cluster = cluster;
  const absl::Time now = dependencies_.clock.Now();
  // Looks whether another program revoked keys.
  (void)dependencies_.keys.TrustVersion(now);
  if (dependencies_.keys.Verifier()->Verify(plan.signed_plan(), expected, create_time).ok()) {
    return true;
  }
  // A server with keys of its own on the same store signed it, which this one cannot judge; the
  // bundle of all does.
  const TrustBundle known = dependencies_.keys.Bundle(now);
  return absl::c_any_of(plan.signed_plan().signatures(), [&](const v1::Signature& signature) {
    return absl::c_none_of(known.keys(), [&](const TrustedKey& key) {
      return key.public_key.key_id() == signature.key_id();
    });
  });
}

SharedPlan PlanCore::Remember(const PlanQuestion& question, const PlanRecord& record, v1::Plan plan,
                              int64_t trust_version) {
  plan.set_from_cache(true);
  ReadyPlan ready;
  ready.version = question.version;
  ready.trust_version = trust_version;
  ready.issue_time = record.create_time;
  ready.expire_time = record.expire_time;
  ready.plan = std::make_shared<const v1::Plan>(std::move(plan));
  ready_plans_.Put(question.request_key, ready, ready.plan->SpaceUsedLong());
  return ready.plan;
}

PlanCore::SharedAnswer PlanCore::FindAnswer(const PlanQuestion& question) {
  SharedAnswer answer = answers_.Get(question.answer_key).value_or(nullptr);
  if (answer == nullptr) return nullptr;
  // The key of a stored plan may have been revoked since.
  const auto* const issued = std::get_if<IssuedPlan>(&answer->result);
  return issued == nullptr || IsOfTrustedServer(question, *issued->plan) ? answer : nullptr;
}

bool PlanCore::IsOfTrustedServer(const PlanQuestion& question, const v1::Plan& plan) const {
  ExpectedAudience expected;
  expected.cluster = question.cluster;
  expected.topology_digest = question.topology_digest;
  // Looks whether another program revoked keys.
  (void)dependencies_.keys.TrustVersion(dependencies_.clock.Now());
  const absl::Time issued = absl::FromUnixSeconds(plan.create_time().seconds()) +
                            absl::Nanoseconds(plan.create_time().nanos());
  return dependencies_.keys.Verifier()->Verify(plan.signed_plan(), expected, issued).ok();
}

PlanCore::SharedAnswer PlanCore::FindIssued(const PlanQuestion& question) {
  const absl::StatusOr<std::optional<PlanRecord>> record =
      dependencies_.store.FindPlanByAnswer(question.cluster, StoredAnswerKey(question));
  if (!record.ok() || !record->has_value()) return nullptr;
  absl::StatusOr<v1::Plan> plan = ParseStoredPlan(**record);
  if (!plan.ok()) return nullptr;
  // The answer will be signed again, so it must come from a server: the signature is checked as of
  // its issue. The plan may have expired since.
  if (!IsOfTrustedServer(question, *plan) || !Answers(*plan, question)) return nullptr;
  PlannerAnswer answer{IssuedPlan{std::make_shared<const v1::Plan>(*std::move(plan))},
                       /*is_complete=*/true};
  const auto shared = std::make_shared<const PlannerAnswer>(std::move(answer));
  answers_.Put(question.answer_key, shared, AnswerBytes(*shared));
  return shared;
}

absl::Status PlanCore::StartSearch(const SharedQuestion& question, const PlanFlight& flight) {
  // A flight of this question may have ended since the look into the cache, after it put its answer
  // there.
  if (const SharedAnswer known = FindAnswer(*question)) {
    flight->Finish(known);
    return absl::OkStatus();
  }
  if (dependencies_.turns == nullptr) return QueueSearch(question, flight, nullptr);
  flight->SetWaitsForServer(true);
  dependencies_.turns->Ask(
      Sha256Hex(question->flight_key), [flight] { return !flight->ShouldStop(); },
      [this, question, flight](std::unique_ptr<Turn> turn) {
        if (turn == nullptr && flight->ShouldStop()) return flight->Finish(flight->TimeoutError());
        flight->SetWaitsForServer(false);
        const absl::Status queued = QueueSearch(question, flight, std::move(turn));
        if (!queued.ok()) flight->Finish(queued);
      });
  return absl::OkStatus();
}

absl::Status PlanCore::QueueSearch(const SharedQuestion& question, const PlanFlight& flight,
                                   std::shared_ptr<Turn> turn) {
  const absl::Duration submitted = dependencies_.clock.Steady();
  // The task holds the turn, and the pool destroys the task when it is done.
  const auto run = [this, question, flight, submitted, turn = std::move(turn)](
                       const std::function<bool()>& stopping) -> absl::StatusOr<SharedAnswer> {
    if (dependencies_.turns != nullptr) {
      if (SharedAnswer issued = FindIssued(*question)) {
        dependencies_.observer.SearchShared();
        return issued;
      }
    }
    return Search(*question, dependencies_.clock.Steady() - submitted, *flight, stopping);
  };
  return QueueSharedSearch<SharedAnswer>(dependencies_.pool, flight,
                                         {question->caller->owner(), question->cluster}, run);
}

absl::StatusOr<PlanCore::SharedAnswer> PlanCore::Search(const PlanQuestion& question,
                                                        absl::Duration queue_duration,
                                                        Flight<SharedAnswer>& flight,
                                                        const std::function<bool()>& stopping) {
  if (flight.ShouldStop()) return flight.TimeoutError();
  SearchOrder order;
  order.planner = question.options.planner;
  order.max_state_count = question.options.max_state_count;
  order.wanted_gap_ratio = question.options.wanted_gap_ratio;
  if (question.options.wants_robust_plan) {
    order.robust_alternative_count = question.options.robust_alternative_count;
  }
  order.time_limit =
      question.options.search_time_limit.value_or(dependencies_.limits.max_search_duration);
  order.compare_baselines = question.options.compare_baselines;
  order.queue_duration = queue_duration;
  order.helpers = &dependencies_.pool.helpers();
  order.should_stop = [&flight, &stopping] { return stopping() || flight.ShouldStop(); };
  order.on_progress = [&flight](const v1::SearchProgress& progress) {
    const MemoryAccount::Scope uncounted(nullptr);  // Messages to callers are not the search's.
    flight.ReportProgress(progress);
  };
  absl::StatusOr<PlannerAnswer> answer = ExecuteOrder(
      dependencies_.planner, question.problem, order, dependencies_.clock, dependencies_.observer);
  if (!answer.ok()) {
    const bool is_timeout = answer.status().code() == absl::StatusCode::kDeadlineExceeded;
    return is_timeout && stopping() ? SearchPool::DrainingError() : answer.status();
  }
  const auto shared = std::make_shared<const PlannerAnswer>(*std::move(answer));
  if (shared->is_complete) {
    // The cache outlives the search, and is not to be left half changed.
    const MemoryAccount::Scope uncounted(nullptr);
    answers_.Put(question.answer_key, shared, AnswerBytes(*shared));
  }
  return shared;
}

}  // namespace parplan
