// The part of `PlanCore` that signs and stores plans, and finds their places among those of a job.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/resource_name.h"
#include "server/core/issue.h"
#include "server/core/plan_core.h"
#include "server/core/stored_message.h"

namespace parplan {
namespace {

// Attempts to number a plan of a job. Each that fails means that another server succeeded, and a
// job is seldom planned for by more than one.
constexpr int kMaxIssueAttempts = 8;

// Returns the line of the audit log for a plan that was just signed.
AuditRecord SignatureRecord(const PlanQuestion& question, const PlanName& name,
                            const v1::Plan& plan) {
  const Caller& caller = *question.caller;
  Resource resource;
  resource.cluster = question.cluster;
  resource.owner = caller.owner();
  resource.job_id = question.job_id;
  AuditRecord record;
  record.event = AuditRecord::Event::kSignature;
  record.identity = caller.identity().text();
  record.role = caller.AllowingRole("CreatePlan", resource);
  record.method = "CreatePlan";
  record.resource = ClusterName{question.cluster}.ToString();
  record.job_id = question.job_id;
  record.plan = name.ToString();
  for (const v1::Signature& signature : plan.signed_plan().signatures()) {
    record.key_ids.push_back(signature.key_id());
  }
  record.request_id = question.call_id;
  return record;
}

}  // namespace

absl::StatusOr<std::optional<PlanCore::Place>> PlanCore::FindPlace(const PlanQuestion& question) {
  if (question.job_id.empty()) return std::nullopt;
  const Caller& caller = *question.caller;
  const absl::Time now = dependencies_.clock.Now();
  PARPLAN_ASSIGN_OR_RETURN(std::optional<JobRecord> job,
                           dependencies_.store.FindJob(question.cluster, question.job_id, now));
  Place place;
  PARPLAN_ASSIGN_OR_RETURN(place.predecessor,
                           dependencies_.store.FindPlanOfJob(question.cluster, question.job_id));
  if (!job.has_value() && place.predecessor.has_value()) {
    // A server of an older release planned for the job, on the same store.
    job = JobRecord{.owner = place.predecessor->owner,
                    .is_held = place.predecessor->expire_time > now};
  }
  if (!job.has_value()) {
    place.claim = {caller.owner(), 1};
    return place;
  }
  place.claim = {job->owner, job->generation + 1};
  const bool plans_for_owner = !caller.is_restricted() || job->owner == caller.owner() ||
                               caller.Holds(Role::kOperator, question.cluster) ||
                               caller.ExecutesJob(question.cluster, question.job_id);
  if (plans_for_owner) return place;
  // A job without an owner was planned while the server restricted no caller: whoever may plan for
  // it goes on with it.
  if (job->is_held && !job->owner.empty()) return RefuseJob(question);
  place.claim.owner = caller.owner();
  return place;
}

absl::Status PlanCore::RefuseJob(const PlanQuestion& question) {
  const Caller& caller = *question.caller;
  Resource resource;
  resource.name = ClusterName{question.cluster}.ToString();
  resource.cluster = question.cluster;
  resource.job_id = question.job_id;
  const absl::Status refused = MakeError(
      absl::StatusCode::kPermissionDenied, Reason::kRoleRequired,
      absl::StrCat("job `", question.job_id, "` in ", resource.name,
                   " has a plan of another caller; only that caller, the executor of the job and "
                   "operators may make another one. Use another job id if this is another job"),
      {{"method", "CreatePlan"},
       {"resource", resource.name},
       {"identity", caller.identity().text()},
       {"heldRoles", caller.RolesIn(question.cluster)},
       {"neededRoles", "executor (own), operator"}});
  return dependencies_.guard.Refuse(caller, question.call_id, "CreatePlan", resource, refused);
}

absl::StatusOr<SharedPlan> PlanCore::Issue(const PlanQuestion& question,
                                           const PlannerAnswer& answer) {
  if (const auto* nothing = std::get_if<NothingFits>(&answer.result)) {
    return NothingFitsError(question.problem, question.options.planner, *nothing);
  }
  const std::string& serial_key = question.job_id.empty() ? question.binding_key : question.job_id;
  const std::lock_guard<std::mutex> lock(
      issue_mutexes_[std::hash<std::string>()(serial_key) % issue_mutexes_.size()]);
  for (int attempt = 1; attempt <= kMaxIssueAttempts; ++attempt) {
    // Another call with this request_id may have ended meanwhile. Before the quotas, which its plan
    // may have used up, and before anything is signed.
    PARPLAN_ASSIGN_OR_RETURN(SharedPlan first,
                             FindRetried(question.cluster, question.caller->owner(),
                                         question.request_id, question.job_id, question.spec));
    if (first != nullptr) return first;
    // Before the look at the store: if another server answers the same question for the job after
    // that look, the number is taken, and the next attempt sees that answer.
    PARPLAN_ASSIGN_OR_RETURN(const std::optional<Place> place, FindPlace(question));
    if (answer.is_complete) {
      PARPLAN_ASSIGN_OR_RETURN(SharedPlan stored, FindStored(question));
      if (stored != nullptr) return stored;
    }
    absl::StatusOr<SharedPlan> issued = IssueNew(question, answer, place);
    if (issued.status().code() != absl::StatusCode::kAborted) return issued;
  }
  return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                   absl::StrCat("job `", question.job_id,
                                "` is planned for by other servers at the same time; try again"));
}

absl::StatusOr<SharedPlan> PlanCore::IssueNew(const PlanQuestion& question,
                                              const PlannerAnswer& answer,
                                              const std::optional<Place>& place) {
  const absl::Time now = dependencies_.clock.Now();
  const std::string plan_key = StoredPlanKey(question, answer.is_complete);
  const PlanName name{question.cluster, NewPlanId(plan_key, now)};
  UnsignedAnswer parts;
  if (const auto* issued = std::get_if<IssuedPlan>(&answer.result)) {
    PARPLAN_ASSIGN_OR_RETURN(parts, AnswerAgain(question, *issued->plan, name.ToString(), now));
  } else {
    parts = NewAnswer(question, std::get<SearchedPlan>(answer.result), name.ToString(), now);
  }
  auto& [payload, plan] = parts;
  std::optional<JobClaim> claim;
  if (place.has_value()) {
    payload.set_generation(place->claim.generation);
    if (place->predecessor.has_value()) {
      PARPLAN_RETURN_IF_ERROR(Succeed(*place->predecessor, payload));
    }
    claim = {place->claim.owner, payload.generation()};
  }
  const int64_t trust_version = dependencies_.keys.TrustVersion(now);
  PARPLAN_ASSIGN_OR_RETURN(*plan.mutable_signed_plan(),
                           dependencies_.keys.Sign(payload.SerializeAsString(), now));
  PARPLAN_RETURN_IF_ERROR(dependencies_.audit.Write(SignatureRecord(question, name, plan)));

  PlanRecord record;
  record.name = name.ToString();
  record.cluster = question.cluster;
  record.plan_id = name.plan;
  record.plan_key = plan_key;
  if (answer.is_complete) record.answer_key = StoredAnswerKey(question);
  record.owner = question.caller->owner();
  record.request_id = question.request_id;
  record.job_id = question.job_id;
  record.topology_digest = question.topology_digest;
  record.profile_digest = question.profile_digest;
  // Apart, since plans for one question share it.
  record.spec = plan.spec().SerializeAsString();
  v1::PlanSpec spec;
  spec.Swap(plan.mutable_spec());
  plan.clear_spec();
  record.bytes = plan.SerializeAsString();
  *plan.mutable_spec() = std::move(spec);
  record.create_time = now;
  record.expire_time = now + question.time_to_live;
  PARPLAN_RETURN_IF_ERROR(dependencies_.quotas.Check(
      {.owner = record.owner,
       .cluster = record.cluster,
       .plan_count = 1,
       .byte_count = static_cast<int64_t>(record.bytes.size() + record.spec.size()),
       .spec = &record.spec}));
  absl::StatusOr<PlanRecord> stored = dependencies_.store.PutPlan(record, claim);
  if (stored.status().code() == absl::StatusCode::kAlreadyExists) {
    // The same question at the same instant: the plan of that name answers it.
    stored = dependencies_.store.GetPlan(record.name);
  }
  if (stored.status().code() == absl::StatusCode::kInvalidArgument) {
    // Another call with this request_id was first. The keys of the plans differ even if both ask
    // the same, for example after a node was measured between the two: this one is a retry then.
    PARPLAN_ASSIGN_OR_RETURN(SharedPlan first,
                             FindRetried(question.cluster, record.owner, question.request_id,
                                         question.job_id, question.spec));
    if (first != nullptr) return first;
  }
  PARPLAN_RETURN_IF_ERROR(stored.status());
  if (stored->bytes != record.bytes) {
    // Another call with this request_id was first, or the name existed (see above).
    PARPLAN_ASSIGN_OR_RETURN(plan, ParseStoredPlan(*stored));
  } else {
    dependencies_.observer.PlanIssued(ReportOf(question, plan, payload, now));
  }
  if (answer.is_complete) Remember(question, *stored, plan, trust_version);
  return std::make_shared<const v1::Plan>(std::move(plan));
}

}  // namespace parplan
