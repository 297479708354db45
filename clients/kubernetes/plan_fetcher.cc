#include "clients/kubernetes/plan_fetcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/files/input_files.h"
#include "clients/kubernetes/successor.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/node_count.h"
#include "proto/wire/topology_wire.h"

namespace parplan::sidecar {
namespace {

// Number of plans of a page (a plan names every device, so it may be large), and of pages that are
// searched for the plan of a job.
constexpr int kPageSize = 20;
constexpr int kMaxPageCount = 100;

// Longest time by which a plan of one replica may appear after a younger plan of another.
constexpr absl::Duration kLatecomer = absl::Minutes(2);

// Number of expired plans of one question after which pods that send it are refused.
constexpr int kMaxAskCount = 16;

absl::Status NotYet(const std::string& what) {
  return MakeError(absl::StatusCode::kNotFound, Reason::kResourceNotFound, what);
}

bool IsReason(const absl::Status& status, Reason reason) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() && detail->reason == reason;
}

// Returns whether the unverified bytes claim this job.
bool ClaimsJob(const v1::SignedPlan& envelope, const std::string& job_id) {
  v1::PlanPayload payload;
  return payload.ParseFromString(envelope.payload()) && payload.job_id() == job_id;
}

// Returns a UUID derived from the content: the same for all pods of a job that send the same
// question.
std::string RequestIdOf(const std::string& job_id, const std::string& question, int ask) {
  std::string digest = Sha256Hex(absl::StrCat("parplan sidecar request 1\n", job_id.size(), " ",
                                              job_id, "\n", ask, "\n", question));
  digest[12] = '8';
  digest[16] = '8';
  return absl::StrCat(digest.substr(0, 8), "-", digest.substr(8, 4), "-", digest.substr(12, 4), "-",
                      digest.substr(16, 4), "-", digest.substr(20, 12));
}

}  // namespace

absl::Status CheckTrustLife(const TrustBundle& trust, const std::string& path, absl::Time now) {
  if (trust.CheckLife(now).ok()) return absl::OkStatus();
  const std::string expire_time =
      absl::FormatTime(absl::RFC3339_sec, trust.version()->expire_time, absl::UTCTimeZone());
  return MakeError(
      absl::StatusCode::kPermissionDenied, Reason::kSignatureInvalid,
      absl::StrCat("the trust bundle `", path, "`, number ", trust.version()->sequence,
                   ", expired at ", expire_time,
                   ", and no new plan is taken by it; get the present one from the owner of the "
                   "cluster (`parplan-server keys bundle`) and put it in its place"),
      {{"expireTime", expire_time}, {"sequence", absl::StrCat(trust.version()->sequence)}});
}

ExpectedAudience PlanFetcher::Audience(const std::string& job_id) const {
  ExpectedAudience expected;
  expected.cluster = wanted_.cluster;
  expected.job_id = job_id;
  expected.node_name = wanted_.node_name;
  return expected;
}

absl::StatusOr<PlanVerifier> PlanFetcher::ReadTrust(absl::Time now) {
  PARPLAN_ASSIGN_OR_RETURN(const TrustBundle trust, ReadTrustFile(wanted_.trust_file));
  PARPLAN_RETURN_IF_ERROR(accepted_.CheckSuccessor(trust));
  accepted_ = trust;
  // Else a list without a plan of the job would hide it.
  PARPLAN_RETURN_IF_ERROR(CheckTrustLife(trust, wanted_.trust_file, now));
  return PlanVerifier(trust);
}

absl::Status PlanFetcher::Connect() {
  if (client_ != nullptr) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, MakeChannel(server_));
  client_ = std::make_unique<PlanClient>(channel);
  return absl::OkStatus();
}

void PlanFetcher::Heed(const absl::Status& status) {
  if (absl::IsUnavailable(status) || absl::IsUnauthenticated(status)) client_.reset();
}

absl::StatusOr<FetchedPlan> PlanFetcher::Fetch(absl::Time now, absl::Duration timeout) {
  absl::StatusOr<FetchedPlan> plan = FetchOnce(now, timeout);
  Heed(plan.status());
  return plan;
}

absl::StatusOr<std::optional<FetchedPlan>> PlanFetcher::FetchNewer(const v1::PlanPayload& current,
                                                                   absl::Time now,
                                                                   absl::Duration timeout) {
  absl::StatusOr<std::optional<FetchedPlan>> plan = FetchNewerOnce(current, now, timeout);
  Heed(plan.status());
  return plan;
}

absl::StatusOr<FetchedPlan> PlanFetcher::FetchOnce(absl::Time now, absl::Duration timeout) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanVerifier verifier, ReadTrust(now));
  if (!wanted_.file.empty()) return FromFiles(verifier, now);
  PARPLAN_RETURN_IF_ERROR(Connect());
  if (!wanted_.question_file.empty()) return Asked(verifier, now, timeout);
  if (!wanted_.name.empty()) {
    return Named(verifier, wanted_.name, wanted_.job_id, now, timeout);
  }
  PARPLAN_ASSIGN_OR_RETURN(
      const std::string name,
      NewestName(verifier, wanted_.cluster, wanted_.job_id, absl::InfinitePast(), now, timeout));
  if (name.empty()) {
    return NotYet(absl::StrCat("cluster ", wanted_.cluster, " has no plan of job `", wanted_.job_id,
                               "` yet; ask for one with `planctl plan --job`"));
  }
  return Named(verifier, name, wanted_.job_id, now, timeout);
}

absl::StatusOr<std::optional<FetchedPlan>> PlanFetcher::FetchNewerOnce(
    const v1::PlanPayload& current, absl::Time now, absl::Duration timeout) {
  if (current.job_id().empty()) return std::nullopt;
  PARPLAN_ASSIGN_OR_RETURN(const PlanVerifier verifier, ReadTrust(now));
  PARPLAN_RETURN_IF_ERROR(Connect());
  PARPLAN_ASSIGN_OR_RETURN(const absl::Time issued,
                           TimestampFromProto(current.issue_time(), "issue_time"));
  PARPLAN_ASSIGN_OR_RETURN(const std::string name,
                           NewestName(verifier, current.cluster(), current.job_id(),
                                      std::max(issued, looked_until_ - kLatecomer), now, timeout));
  if (name.empty() || name == current.plan()) return std::nullopt;
  PARPLAN_ASSIGN_OR_RETURN(FetchedPlan plan, Named(verifier, name, current.job_id(), now, timeout));
  PARPLAN_RETURN_IF_ERROR(CheckSuccessor(current, plan.verified.payload()));
  return plan;
}

absl::StatusOr<FetchedPlan> PlanFetcher::FromFiles(const PlanVerifier& verifier,
                                                   absl::Time now) const {
  PARPLAN_ASSIGN_OR_RETURN(v1::SignedPlan envelope, ReadEnvelopeFile(wanted_.file));
  PARPLAN_ASSIGN_OR_RETURN(VerifiedPlan verified,
                           verifier.Verify(envelope, Audience(wanted_.job_id), now));
  PARPLAN_ASSIGN_OR_RETURN(ModelSpec model, ReadModelFile(wanted_.model_file));
  PARPLAN_ASSIGN_OR_RETURN(Topology topology, ReadTopologyFile(wanted_.topology_file));
  return FetchedPlan{std::move(envelope), std::move(verified), std::move(model),
                     std::move(topology)};
}

absl::StatusOr<FetchedPlan> PlanFetcher::FromServer(const PlanVerifier& verifier,
                                                    const v1::Plan& plan, const std::string& job_id,
                                                    absl::Time now) const {
  PARPLAN_ASSIGN_OR_RETURN(VerifiedPlan verified,
                           verifier.Verify(plan.signed_plan(), Audience(job_id), now));
  PARPLAN_ASSIGN_OR_RETURN(ModelSpec model, ModelFromProto(plan.spec().model()));
  PARPLAN_ASSIGN_OR_RETURN(Topology topology, TopologyFromProto(plan.spec().topology()));
  return FetchedPlan{plan.signed_plan(), std::move(verified), std::move(model),
                     std::move(topology)};
}

absl::StatusOr<FetchedPlan> PlanFetcher::Named(const PlanVerifier& verifier,
                                               const std::string& name, const std::string& job_id,
                                               absl::Time now, absl::Duration timeout) const {
  v1::GetPlanRequest request;
  request.set_name(name);
  PARPLAN_ASSIGN_OR_RETURN(const v1::Plan plan, client_->GetPlan(request, {.timeout = timeout}));
  return FromServer(verifier, plan, job_id, now);
}

absl::StatusOr<FetchedPlan> PlanFetcher::Asked(const PlanVerifier& verifier, absl::Time now,
                                               absl::Duration timeout) const {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(wanted_.question_file));
  v1::CreatePlanRequest request;
  PARPLAN_RETURN_IF_ERROR(ParseJson(text, wanted_.question_file, &request));
  std::string question = text;
  if (wanted_.node_count != 0) {
    PARPLAN_RETURN_IF_ERROR(
        SetNodeCount(wanted_.node_count, "--nodes", request.mutable_spec()->mutable_topology()));
    absl::StrAppend(&question, "\n--nodes ", wanted_.node_count);
  }
  if (!wanted_.job_id.empty()) request.set_job_id(wanted_.job_id);
  const std::string job_id = request.job_id();
  // Pods of a job ask with the same request id, so that all get the first answer even if another
  // search would end elsewhere. Without a job there is no other pod to agree with.
  request.clear_request_id();
  absl::StatusOr<v1::Plan> plan;
  for (int ask = 0; ask < kMaxAskCount; ++ask) {
    if (!job_id.empty()) request.set_request_id(RequestIdOf(job_id, question, ask));
    plan = client_->CreatePlan(request, {.timeout = timeout});
    // If that plan has expired, or its key was revoked, all pods derive the same next id.
    const bool is_gone = IsReason(plan.status(), Reason::kPlanExpired) ||
                         IsReason(plan.status(), Reason::kSignatureInvalid);
    if (job_id.empty() || plan.ok() || !is_gone) break;
  }
  PARPLAN_RETURN_IF_ERROR(plan.status());
  return FromServer(verifier, *plan, job_id, now);
}

absl::StatusOr<std::string> PlanFetcher::NewestName(const PlanVerifier& verifier,
                                                    const std::string& cluster,
                                                    const std::string& job_id, absl::Time after,
                                                    absl::Time now, absl::Duration timeout) {
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  std::optional<absl::Time> newest;
  v1::ListPlansRequest request;
  request.set_parent(absl::StrCat("clusters/", cluster));
  request.set_page_size(kPageSize);
  absl::Status refused;
  bool is_over = false;
  for (int page = 0; page < kMaxPageCount; ++page) {
    const absl::Duration left = absl::FromChrono(end - std::chrono::steady_clock::now());
    PARPLAN_ASSIGN_OR_RETURN(
        const v1::ListPlansResponse plans,
        client_->ListPlans(request, {.timeout = std::max(left, absl::Milliseconds(1))}));
    for (const v1::Plan& plan : plans.plans()) {
      PARPLAN_ASSIGN_OR_RETURN(const absl::Time created,
                               TimestampFromProto(plan.create_time(), "create_time"));
      if (!newest.has_value()) newest = created;
      // Newest first: the rest is older.
      is_over = created <= after;
      if (is_over) break;
      // Cheaper than a signature, and most plans are of other jobs.
      if (!ClaimsJob(plan.signed_plan(), job_id)) continue;
      const absl::StatusOr<VerifiedPlan> verified =
          verifier.Verify(plan.signed_plan(), Audience(job_id), now);
      if (!verified.ok()) {
        // Keeps the first error of a plan of this job that can't be trusted. Plans that have
        // expired or are for another audience are skipped.
        if (refused.ok() && !IsReason(verified.status(), Reason::kAudienceMismatch) &&
            !IsReason(verified.status(), Reason::kPlanExpired)) {
          refused = verified.status();
        }
        continue;
      }
      if (verified->payload().job_id() == job_id) return verified->payload().plan();
    }
    if (is_over || plans.next_page_token().empty()) break;
    request.set_page_token(plans.next_page_token());
  }
  if (!refused.ok()) return refused;
  if (newest.has_value()) looked_until_ = std::max(looked_until_, *newest);
  return std::string();
}

}  // namespace parplan::sidecar
