// Answers questions with signed plans: validates, looks up, searches, checks, signs, stores. The
// transport (server/rpc) brings the messages; planner/ finds the plans. server/rpc/plan_service.cc
// calls it.

#ifndef PARPLAN_SERVER_CORE_PLAN_CORE_H_
#define PARPLAN_SERVER_CORE_PLAN_CORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/find_plan.h"
#include "server/access/caller.h"
#include "server/audit/audit_record.h"
#include "server/core/call_context.h"
#include "server/core/call_guard.h"
#include "server/core/key_ring.h"
#include "server/core/knowledge_keeper.h"
#include "server/core/limits.h"
#include "server/core/lru_cache.h"
#include "server/core/metered_store.h"
#include "server/core/observer.h"
#include "server/core/plan_question.h"
#include "server/core/plan_search.h"
#include "server/core/quota_keeper.h"
#include "server/core/search_pool.h"
#include "server/core/single_flight.h"
#include "server/store/store.h"
#include "server/store/turns.h"

namespace parplan {

// Immutable; a transport serializes it as it is.
using SharedPlan = std::shared_ptr<const v1::Plan>;

// Called exactly once: on the calling thread if the answer is known or the request refused, else on
// a searching thread, a thread of `Turns`, the thread of a call whose search takes the place of
// this one in the queue, or the thread that cancels the call or drains the pool.
using PlanDone = std::function<void(absl::StatusOr<SharedPlan>)>;

// Called on a searching thread any number of times, and not any more once `PlanDone` has begun.
// Must return quickly, since the search waits for it. Must neither cancel the call nor take a lock
// that is held while the call is cancelled.
using ProgressListener = std::function<void(const v1::SearchProgress&)>;

// The methods of PlanService except `ShapePlan`. Errors are those listed in plan_service.proto:
// INVALID_ARGUMENT (SPEC_INVALID, REQUEST_ID_REUSED; PAYLOAD_MALFORMED from `ExportPlan`),
// FAILED_PRECONDITION (PROFILE_MISSING, NO_FEASIBLE_PLAN, PLAN_EXPIRED; SIGNATURE_INVALID for a
// retry whose plan no trusted key signed; STORE_UNAVAILABLE if no key may sign), NOT_FOUND,
// PERMISSION_DENIED (ROLE_REQUIRED for a job that has a plan of another caller, SIGNATURE_INVALID
// from `ExportPlan`), RESOURCE_EXHAUSTED (QUEUE_FULL, QUOTA_EXCEEDED, SEARCH_OUT_OF_MEMORY,
// UPLOAD_TOO_LARGE), DEADLINE_EXCEEDED (SEARCH_TIMED_OUT), UNAVAILABLE (DRAINING,
// STORE_UNAVAILABLE, AUDIT_UNAVAILABLE), DATA_LOSS (STORE_UNAVAILABLE), INTERNAL (CHECK_FAILED,
// STORE_UNAVAILABLE); and CANCELLED with no `Reason` for a call that was cancelled. All may wait
// before they return: `VerifyPlan` and `GetCapabilities` for the disk with the keys, the others
// also for the store's disk or network. Safe to use from any thread.
class PlanCore {
 public:
  // REQUIRES, unchecked: the references outlive the core; the pool is drained before the core is
  // destroyed; `turns`, whose thread calls the core and the pool, is destroyed before both.
  struct Dependencies {
    MeteredStore& store;
    KnowledgeKeeper& knowledge;
    KeyRing& keys;
    SearchPool& pool;
    const Clock& clock;
    Observer& observer;
    const Limits& limits;
    CallGuard& guard;
    QuotaKeeper& quotas;
    AuditSink& audit;
    PlannerFunction planner = &FindPlan;
    // Coordinates the searches of several servers on one store; null for a single server.
    Turns* turns = nullptr;
  };
  explicit PlanCore(Dependencies dependencies);

  PlanCore(const PlanCore&) = delete;
  PlanCore& operator=(const PlanCore&) = delete;

  // Hands a signed plan, or the error, to `done`. A plan made before is given without a search if
  // it is for the same question, owner, job, nodes and time to live, rests on the same profiles and
  // calibration, was not cut short by a limit of its search, and has at least `kMinLifeLeft` of its
  // life left; it is marked `from_cache`. Neither `context` nor `done` may be null. `request` is
  // not read after the return.
  //
  // A retry, which has the `request_id` of an earlier call of its owner that made a plan, gets that
  // plan before any other is looked for, marked `from_cache` too; PLAN_EXPIRED once it has expired,
  // and REQUEST_ID_REUSED if its job or spec is another (the time to live is not compared). A call
  // answered from the plans made before does not use its id.
  //
  // Equal questions in flight share one search, whoever asks. The search ends with the best plan so
  // far at its limits, or shortly before the latest deadline of its callers; a caller whose
  // deadline is earlier gets SEARCH_TIMED_OUT.
  void CreatePlan(const std::shared_ptr<CallContext>& context, const v1::CreatePlanRequest& request,
                  const PlanDone& done);

  // Does the same as `CreatePlan`, and reports the progress of the search to `progress`, which may
  // be empty. A caller that joins a search in flight receives the reports from then on.
  void SearchPlan(const std::shared_ptr<CallContext>& context, const v1::CreatePlanRequest& request,
                  const ProgressListener& progress, const PlanDone& done);

  // Answer on the calling thread. `GetPlan` and `ListPlans` return expired plans too, and verify no
  // signature. `VerifyPlan` has a verdict instead of an error, as of now; it does not compare the
  // fields of the audience that the request leaves empty. `ExportPlan` takes only a plan that a key
  // of this server signed and that has not expired. `ListPlans` lists what the caller may see, one
  // page, newest first, each plan without its spec, alternatives and memory front, which `GetPlan`
  // returns.
  absl::StatusOr<v1::Plan> GetPlan(const v1::GetPlanRequest& request);
  absl::StatusOr<v1::ListPlansResponse> ListPlans(const v1::ListPlansRequest& request,
                                                  const Caller& caller = *Caller::Itself());

  // The largest answer of `ExportPlan`, in bytes of files and their names: half of what clients
  // take. For a larger one, or too many layers, the error is UPLOAD_TOO_LARGE.
  static constexpr size_t kMaxExportBytes = size_t{32} << 20;
  absl::StatusOr<v1::ExportPlanResponse> ExportPlan(const v1::ExportPlanRequest& request);

  v1::VerifyPlanResponse VerifyPlan(const v1::VerifyPlanRequest& request);
  v1::Capabilities GetCapabilities() const;

  // Share of a plan's life that must be left for the plan to be given once more: whoever asks for
  // 24 hours gets at least 2.4. A larger share would search and sign again for callers that a plan
  // still serves, a smaller one would hand out plans that end during a job's start. Not measured.
  static constexpr double kMinLifeLeft = 0.1;

 private:
  using SharedAnswer = std::shared_ptr<const PlannerAnswer>;
  using SharedQuestion = std::shared_ptr<const PlanQuestion>;
  using PlanFlight = std::shared_ptr<Flight<SharedAnswer>>;

  // A signed plan in memory, marked `from_cache`.
  struct ReadyPlan {
    // The version that the plan rests on.
    KnowledgeVersion version;
    // `KeyRing::TrustVersion` when its signature was verified or made.
    int64_t trust_version = 0;
    absl::Time issue_time;
    absl::Time expire_time;
    SharedPlan plan;
  };

  // Returns the signed plan and the model of a request for an export.
  absl::StatusOr<v1::Plan> PlanToExport(const v1::ExportPlanRequest& request);

  // Returns a plan in memory that answers the request; null if there is none.
  absl::StatusOr<SharedPlan> FindReady(const ClusterName& parent, const std::string& request_key);

  // Returns the plan that `owner` stored under `request_id` if a request with this job and spec is
  // a retry; null if it is none. INVALID_ARGUMENT (REQUEST_ID_REUSED) if that plan answers another
  // question; FAILED_PRECONDITION if it has expired (PLAN_EXPIRED) or no trusted key signed it any
  // more (SIGNATURE_INVALID). Nodes measured since and the time to live are not compared.
  absl::StatusOr<SharedPlan> FindRetried(const std::string& cluster, const std::string& owner,
                                         const std::string& request_id, const std::string& job_id,
                                         const v1::PlanSpec& spec);

  // The place of a plan among those of its job.
  struct Place {
    JobClaim claim;
    std::optional<PlanRecord> predecessor;  // The newest plan that is stored.
  };

  // Returns the place of a plan for the question; nothing if that is for no job. A job belongs to
  // the first who plans for it, until nothing holds it any more (`JobRecord::is_held`): operators
  // and the executor of a job plan for it without owning it. PERMISSION_DENIED (ROLE_REQUIRED),
  // recorded in the audit log, for every other caller.
  absl::StatusOr<std::optional<Place>> FindPlace(const PlanQuestion& question);

  // Records that the caller may not plan for the job, and returns PERMISSION_DENIED.
  absl::Status RefuseJob(const PlanQuestion& question);

  // Returns a stored plan that answers the question; null if there is none, or if only revoked keys
  // signed it: it is then made and signed anew. Plans of servers with keys of their own on the same
  // store are returned, since this one cannot judge them. DATA_LOSS (STORE_UNAVAILABLE) if the plan
  // answers another question, under whose key it must stand.
  absl::StatusOr<SharedPlan> FindStored(const PlanQuestion& question);

  // Returns whether a key that is not revoked, as far as this server knows the keys, signed the
  // plan that `cluster` stored at `create_time`.
  bool HasLiveSignature(const std::string& cluster, const v1::Plan& plan,
                        absl::Time create_time) const;
  // Returns whether a key that is not revoked signed a stored plan that answers `question`, as of
  // its issue.
  bool IsOfTrustedServer(const PlanQuestion& question, const v1::Plan& plan) const;

  // Keeps a plan in memory for equal requests and returns it as they will get it. `trust_version`
  // is from before its signature was verified or made.
  SharedPlan Remember(const PlanQuestion& question, const PlanRecord& record, v1::Plan plan,
                      int64_t trust_version);

  // Returns whether a plan of these times may be given to a caller now.
  bool HasLifeLeft(absl::Time issue_time, absl::Time expire_time) const;

  // Returns the answer to the question from memory; null if there is none.
  SharedAnswer FindAnswer(const PlanQuestion& question);

  // Returns the answer behind a plan that another server, or this one before a restart, issued;
  // null if there is none whose signature holds and which `Answers` the question.
  SharedAnswer FindIssued(const PlanQuestion& question);

  // Queues the search of `question` once no other server searches for the same.
  absl::Status StartSearch(const SharedQuestion& question, const PlanFlight& flight);

  // Queues the search now. `turn` is held until every caller has its plan; it may be null.
  absl::Status QueueSearch(const SharedQuestion& question, const PlanFlight& flight,
                           std::shared_ptr<Turn> turn);

  // Searches, checks and keeps the answer. Runs on a worker.
  absl::StatusOr<SharedAnswer> Search(const PlanQuestion& question, absl::Duration queue_duration,
                                      Flight<SharedAnswer>& flight,
                                      const std::function<bool()>& stopping);

  // Returns the answer as a signed and stored plan for one caller, or the plan that an equal caller
  // got a moment ago. UNAVAILABLE (STORE_UNAVAILABLE) if other servers plan for the job again and
  // again.
  absl::StatusOr<SharedPlan> Issue(const PlanQuestion& question, const PlannerAnswer& answer);

  // Signs and stores a new plan in `place` (`FindPlace`). ABORTED if another server planned for the
  // job since that was found.
  absl::StatusOr<SharedPlan> IssueNew(const PlanQuestion& question, const PlannerAnswer& answer,
                                      const std::optional<Place>& place);

  Dependencies dependencies_;
  LruCache<ReadyPlan> ready_plans_;
  LruCache<SharedAnswer> answers_;
  SingleFlight<SharedAnswer> flights_;
  // Serialise the issuing of equal plans, and of plans of one job, which are numbered; picked by a
  // hash of job or binding key. With 16, others seldom wait for each other; not measured.
  std::array<std::mutex, 16> issue_mutexes_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_PLAN_CORE_H_
