// Answers questions with signed plans: validate, look up, search, check, sign,
// store. The transport brings messages and takes messages; planner/ thinks.

#ifndef PARPLAN_SERVER_CORE_PLAN_CORE_H_
#define PARPLAN_SERVER_CORE_PLAN_CORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/find_plan.h"
#include "server/core/call_context.h"
#include "server/core/key_ring.h"
#include "server/core/knowledge_keeper.h"
#include "server/core/limits.h"
#include "server/core/lru_cache.h"
#include "server/core/observer.h"
#include "server/core/plan_question.h"
#include "server/core/plan_search.h"
#include "server/core/search_pool.h"
#include "server/core/single_flight.h"
#include "server/store/store.h"
#include "server/store/turns.h"

namespace parplan {

// Answers are shared and never changed; a transport serializes them as they are.
using SharedPlan = std::shared_ptr<const v1::Plan>;

// Called exactly once: on the calling thread when the answer is at hand, else on
// a worker's thread, or on the thread that cancels the call.
using PlanDone = std::function<void(absl::StatusOr<SharedPlan>)>;

// Called on a searching thread, any number of times, never once `PlanDone` has
// begun. Returns quickly, since the search waits for it, and neither cancels the
// call nor takes a lock that is held while somebody cancels it.
using ProgressListener = std::function<void(const v1::SearchProgress&)>;

// Errors are those listed in plan_service.proto; besides, CANCELLED without a
// reason for a call that was cancelled. Safe to use from any thread.
class PlanCore {
 public:
  // All outlive the core; the pool is drained before the core goes.
  struct Dependencies {
    Store& store;
    KnowledgeKeeper& knowledge;
    KeyRing& keys;
    SearchPool& pool;
    const Clock& clock;
    Observer& observer;
    const Limits& limits;
    PlannerFunction planner = &FindPlan;
    // Where several servers share the store; null for one.
    Turns* turns = nullptr;
  };
  explicit PlanCore(Dependencies dependencies);

  PlanCore(const PlanCore&) = delete;
  PlanCore& operator=(const PlanCore&) = delete;

  // A plan made before is returned at once, without a search, as long as it is
  // for the same question, job, nodes and time to live, rests on the same
  // profiles and calibration, and has at least `kMinLifeLeft` of its life before it. Equal
  // questions in flight share one search, whoever asks. The search ends with the
  // best plan so far shortly before the last waiting caller's deadline; a caller
  // whose own deadline is earlier gets SEARCH_TIMED_OUT.
  void CreatePlan(std::shared_ptr<CallContext> context, const v1::CreatePlanRequest& request,
                  PlanDone done);

  // As `CreatePlan`, and tells `progress` how the search goes. A caller that
  // joins a search in flight hears of the rest of it.
  void SearchPlan(std::shared_ptr<CallContext> context, const v1::CreatePlanRequest& request,
                  ProgressListener progress, PlanDone done);

  // These may wait for the store's disk.
  absl::StatusOr<v1::Plan> GetPlan(const v1::GetPlanRequest& request);
  absl::StatusOr<v1::ListPlansResponse> ListPlans(const v1::ListPlansRequest& request);

  v1::VerifyPlanResponse VerifyPlan(const v1::VerifyPlanRequest& request);
  v1::Capabilities GetCapabilities() const;

  // Share of a plan's life that must lie before it for the plan to be given to
  // another caller: one who asks for 24 hours gets at least 2.4.
  static constexpr double kMinLifeLeft = 0.1;

 private:
  using SharedAnswer = std::shared_ptr<const PlannerAnswer>;
  using SharedQuestion = std::shared_ptr<const PlanQuestion>;
  using PlanFlight = std::shared_ptr<Flight<SharedAnswer>>;

  // A plan kept ready, marked `from_cache`.
  struct ReadyPlan {
    // Of what the cluster's plans rested on when it was made.
    KnowledgeVersion version;
    absl::Time issue_time;
    absl::Time expire_time;
    SharedPlan plan;
  };

  // A plan of memory that answers the request; null when there is none.
  absl::StatusOr<SharedPlan> FindReady(const ClusterName& parent, const std::string& request_key);

  // The plan stored under the `request_id` of the request, when this is a retry
  // and the plan has not expired; null when it is none. INVALID_ARGUMENT
  // (REQUEST_ID_REUSED) when that plan answers another question.
  absl::StatusOr<SharedPlan> FindRetried(const ClusterName& parent,
                                         const v1::CreatePlanRequest& request);

  // A plan of the store that answers the question; null when there is none.
  absl::StatusOr<SharedPlan> FindStored(const PlanQuestion& question);

  // Keeps a plan ready for equal requests and gives what they will get.
  SharedPlan Remember(const PlanQuestion& question, const PlanRecord& record, v1::Plan plan);

  // Whether a plan may be given to a caller now.
  bool HasLifeLeft(absl::Time issue_time, absl::Time expire_time) const;

  // An answer of memory; null when there is none.
  SharedAnswer FindAnswer(const PlanQuestion& question);

  // An answer that another server, or this one before it was started again, issued a plan
  // from; null when there is none that can be trusted.
  SharedAnswer FindIssued(const PlanQuestion& question);

  // Puts the search of `question` into the queue, once no other server searches the same.
  absl::Status StartSearch(const SharedQuestion& question, const PlanFlight& flight);

  // Puts it there now. `turn` is held until every caller has its plan; it may be null.
  absl::Status QueueSearch(const SharedQuestion& question, const PlanFlight& flight,
                           std::shared_ptr<Turn> turn);

  // Runs on a worker: searches, checks, keeps the answer.
  absl::StatusOr<SharedAnswer> Search(const PlanQuestion& question, absl::Duration queue_duration,
                                      Flight<SharedAnswer>& flight,
                                      const std::function<bool()>& stopping);

  // The answer as a signed and stored plan for one caller, or the plan an equal
  // caller got a moment ago.
  absl::StatusOr<SharedPlan> Issue(const PlanQuestion& question, const PlannerAnswer& answer);

  // Signs and stores a new plan.
  absl::StatusOr<SharedPlan> IssueNew(const PlanQuestion& question, const PlannerAnswer& answer);

  Dependencies dependencies_;
  LruCache<ReadyPlan> ready_plans_;
  LruCache<SharedAnswer> answers_;
  SingleFlight<SharedAnswer> flights_;
  // Equal plans of one server are issued one after the other; picked by binding key.
  std::array<std::mutex, 16> issue_mutexes_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_PLAN_CORE_H_
