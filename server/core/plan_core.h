// Answers questions with signed plans: validate, look up, search, check, sign,
// store. The transport brings messages and takes messages; planner/ thinks.

#ifndef PARPLAN_SERVER_CORE_PLAN_CORE_H_
#define PARPLAN_SERVER_CORE_PLAN_CORE_H_

#include <functional>
#include <memory>
#include <mutex>
#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/planning_problem.h"
#include "planner/search/find_plan.h"
#include "server/core/call_context.h"
#include "server/core/clock.h"
#include "server/core/key_ring.h"
#include "server/core/limits.h"
#include "server/core/lru_cache.h"
#include "server/core/observer.h"
#include "server/core/profile_keeper.h"
#include "server/core/search_pool.h"
#include "server/core/single_flight.h"
#include "server/store/store.h"

namespace parplan {

struct PlanQuestion;
struct PlannerAnswer;

// Answers are shared and never changed; a transport serializes them as they are.
using SharedPlan = std::shared_ptr<const v1::Plan>;
using SharedShape = std::shared_ptr<const v1::ShapePlanResponse>;

// Called exactly once: on the calling thread when the answer is at hand, else on
// a worker's thread, or on the thread that cancels the call.
using PlanDone = std::function<void(absl::StatusOr<SharedPlan>)>;
using ShapeDone = std::function<void(absl::StatusOr<SharedShape>)>;

// Called on a searching thread, any number of times, never after `PlanDone` has
// returned. Returns quickly: the search waits for it.
using ProgressListener = std::function<void(const v1::SearchProgress&)>;

// `FindPlan`, or a test's stand-in for it.
using PlannerFunction = std::function<absl::StatusOr<PlanningResult>(
    const PlanningProblem&, absl::string_view planner, const SearchControl&)>;

// Errors are those listed in plan_service.proto; besides, CANCELLED without a
// reason for a call that was cancelled. Safe to use from any thread.
class PlanCore {
 public:
  // All outlive the core; the pool is drained before the core goes.
  struct Neighbours {
    Store& store;
    ProfileKeeper& profiles;
    KeyRing& keys;
    SearchPool& pool;
    const Clock& clock;
    Observer& observer;
    const Limits& limits;
    PlannerFunction planner = &FindPlan;
  };
  explicit PlanCore(Neighbours neighbours);
  ~PlanCore();

  // An answer given before is returned at once, without a search, as long as it
  // is for the same question, job, nodes and time to live, rests on the same
  // profiles, and has at least `kMinLifeLeft` of its life before it. Equal
  // questions in flight share one search, whoever asks. The search ends with the
  // best plan so far shortly before the last waiting caller's deadline; a caller
  // whose own deadline is earlier gets SEARCH_TIMED_OUT, and the plan from the
  // cache when it asks again.
  void CreatePlan(std::shared_ptr<CallContext> context, const v1::CreatePlanRequest& request,
                  PlanDone done);

  // As `CreatePlan`, and tells `progress` how the search goes. A caller that
  // joins a search in flight hears of the rest of it.
  void SearchPlan(std::shared_ptr<CallContext> context, const v1::CreatePlanRequest& request,
                  ProgressListener progress, PlanDone done);

  void ShapePlan(std::shared_ptr<CallContext> context, const v1::ShapePlanRequest& request,
                 ShapeDone done);

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

  // A signed plan and the revision of the profiles it rests on.
  struct ReadyPlan {
    int64_t revision = 0;
    absl::Time issue_time;
    absl::Time expire_time;
    SharedPlan plan;
  };
  struct ReadyShape {
    int64_t revision = 0;
    SharedShape response;
  };

  void Answer(std::shared_ptr<CallContext> context, const v1::CreatePlanRequest& request,
              ProgressListener progress, PlanDone done);

  // The request read and checked, with its snapshot, problem and keys.
  absl::StatusOr<SharedQuestion> ReadQuestion(const v1::CreatePlanRequest& request);

  // Whether a plan may be given to a caller now.
  bool HasLifeLeft(absl::Time issue_time, absl::Time expire_time) const;

  // A plan of memory or store that answers `question`; null when there is none.
  SharedPlan FindReady(const std::string& request_key, int64_t revision);
  absl::StatusOr<SharedPlan> FindStored(const PlanQuestion& question);
  void Remember(const std::string& request_key, int64_t revision, const v1::Plan& plan);

  // Runs on a worker: searches, checks, and keeps the answer.
  absl::StatusOr<SharedAnswer> Search(const PlanQuestion& question, absl::Duration queued,
                                      Flight<SharedAnswer>& flight,
                                      const std::function<bool()>& stopping);

  // Signs and stores the answer for one caller, or gives the plan an equal
  // caller got a moment ago.
  absl::StatusOr<SharedPlan> Issue(const PlanQuestion& question, const PlannerAnswer& answer);

  absl::StatusOr<SharedShape> Shape(const v1::ShapePlanRequest& request,
                                    Flight<SharedShape>& flight,
                                    const std::function<bool()>& stopping);

  Neighbours to_;
  LruCache<ReadyPlan> plan_cache_;
  LruCache<SharedAnswer> result_cache_;
  LruCache<ReadyShape> shape_cache_;
  SingleFlight<SharedAnswer> searches_;
  SingleFlight<SharedShape> shapes_;
  // Equal bindings are issued one after the other; picked by hash.
  std::array<std::mutex, 16> issue_mutexes_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_PLAN_CORE_H_
